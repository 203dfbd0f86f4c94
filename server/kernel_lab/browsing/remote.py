"""A browser on another machine: its address as given on the command line, and the connection to it.

    ws://HOST:PORT/PATH            what `playwright launch-server` printed there; our server is reached through it
    cdp+http://HOST:PORT?port=N    a Chromium started there with --remote-debugging-port; `port`: our server's own, for
                                   a tunnel that leads from there to here

In: such an address. Out: Playwright's Browser. What is there is somebody else's: program and flags are not known here,
and closing ends the connection and what we opened, never the browser.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from kernel_lab.errors import LabError

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

CONNECT_SECONDS = 15.0
SCHEMES = ("ws", "wss", "cdp+http", "cdp+https")
ALLOWED = (
    "allowed are ws://HOST:PORT/PATH, which `playwright launch-server` prints, and cdp+http://HOST:PORT of a Chromium "
    "started with --remote-debugging-port"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """`url`: as Playwright takes it; `shown`: without what lets others in (path, password, query); `port`: of our own
    server, 0 for any.
    """

    url: str
    shown: str
    cdp: bool
    port: int = 0

    async def connect(self, playwright: "Playwright") -> "Browser":
        """The browser there; raises Playwright's errors, and its TimeoutError after CONNECT_SECONDS."""
        timeout = 1e3 * CONNECT_SECONDS
        if self.cdp:
            return await playwright.chromium.connect_over_cdp(self.url, timeout=timeout)
        # our server stays on 127.0.0.1, which WebGPU needs for its secure context: the connection carries it there
        return await playwright.chromium.connect(self.url, timeout=timeout, expose_network="<loopback>")

    def why_not(self, told: str) -> str:
        """A failure to connect as a sentence, from what Playwright said."""
        if "ERR_CONNECTION_REFUSED" in told:
            return (
                f"the browser at {self.shown} does not reach kernel-lab's server on 127.0.0.1: give ?port=N in the "
                "address, and `ssh -R N:127.0.0.1:N` to that machine."
            )
        if "ECONNREFUSED" in told:
            told = "nobody listens there."
        elif "ECONNRESET" in told or "socket hang up" in told:  # one that is just ending
            told = "whoever listened there hung up."
        elif "ENOTFOUND" in told or "EAI_AGAIN" in told:
            told = "no machine of that name is known."
        elif "Timeout" in told:
            told = f"no answer within {CONNECT_SECONDS:.0f} s; it may speak another protocol."
        told = re.sub(r"^BrowserType\.\w+: ", "", re.sub(r"\b(wss?|https?)://\S+", self.shown, told))
        return f"no browser was reached at {self.shown}: {told.rstrip('. ')}. Check the address; {ALLOWED}."


def is_address(name: str) -> bool:
    """Whether the name of a browser is an address."""
    return "://" in name


def parse(text: str) -> Remote:
    """Reads an address; LabError says what is allowed."""
    try:
        parts = urlsplit(text)
        where = parts.port
    except ValueError:
        where = None
    if where is None or parts.scheme not in SCHEMES or not parts.hostname:
        raise LabError(f"browser {re.sub('//[^/]*@', '//', text)!r} is no address with a port: {ALLOWED}.")
    cdp = parts.scheme.startswith("cdp+")
    shown = f"{parts.scheme}://{f'[{parts.hostname}]' if ':' in parts.hostname else parts.hostname}:{where}"
    if not cdp:
        return Remote(text, shown, cdp)
    query = parse_qs(parts.query, keep_blank_values=True)
    ports = query.pop("port", ["0"])
    if query or len(ports) != 1 or not re.fullmatch(r"\d{1,5}", ports[0]) or int(ports[0]) > 65535:
        raise LabError(
            f"browser {shown}: after the ? only port=NUMBER is allowed, the port of kernel-lab's own server."
        )
    return Remote(parts._replace(query="").geturl().removeprefix("cdp+"), shown, cdp, int(ports[0]))

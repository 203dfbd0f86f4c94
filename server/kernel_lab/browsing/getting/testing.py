"""Chrome for Testing: Google's own builds of every version and channel, through Puppeteer's command.

`npx @puppeteer/browsers` finds the full version, downloads and unpacks it; its version 3 needs Node 22.12 and `unzip`.
The channels are those that its own source takes for this product. The layout is the one that its own source
states: FOLDER/chrome-headless-shell/PLATFORM-VERSION/chrome-headless-shell-PLATFORM/chrome-headless-shell. The download
itself was never seen here: the network of our test machines does not reach it.
"""

from collections.abc import Mapping
from pathlib import Path

from kernel_lab.browsing.finding import Report
from kernel_lab.browsing.getting.source import Version, told
from kernel_lab.errors import LabError

PRODUCT = "chrome-headless-shell"


class ChromeForTesting:
    """It has no list to ask for: a version that does not exist is known when it is to be installed."""

    name = "chrome-for-testing"
    what = "Google's Chrome for Testing, through npx @puppeteer/browsers"
    channels = ("stable", "beta", "dev", "canary")

    def offered(self) -> Mapping[int, str]:
        return {}

    def get(self, version: Version, folder: Path, report: Report) -> Path:
        command = ["npx", "--yes", "@puppeteer/browsers", "install", f"{PRODUCT}@{version}", "--path", str(folder)]
        told(command, "it comes with Node.js (on Debian: `apt-get install npm`)", report, folder)
        program = next((path for path in folder.glob(f"{PRODUCT}/*/*/{PRODUCT}") if path.is_file()), None)
        if program is None:
            raise LabError(f"`{' '.join(command)}` ended well, but there is no {PRODUCT}/*/*/{PRODUCT} in its folder.")
        return program

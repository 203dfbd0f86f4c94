"""What a WGSL text says of its module's names: the types of variables and constants, and what an alias stands for.

In: `Code`. Out: types as WGSL writes them, without spaces. Pure.
"""

from kernel_lab.mutating.wgsl import Code


def module_types(code: Code) -> dict[str, str]:
    """The types of the module's variables and constants that state one."""
    found, at = {}, 0
    while at < len(code.tokens):
        if code.at(at) in ("var", "const", "override"):
            name = code.partner[at + 1] + 1 if code.at(at + 1) == "<" else at + 1
            end = next((i for i in range(name, len(code.tokens)) if code.at(i) in ("=", ";")), len(code.tokens))
            if code.at(name + 1) == ":":
                found[code.at(name)] = "".join(code.at(index) for index in range(name + 2, end))
        at = code.partner[at] + 1 if code.at(at) == "{" else at + 1
    return found


def aliases(code: Code) -> dict[str, str]:
    """The types that `alias` gives names."""
    found = {}
    for index, token in enumerate(code.tokens):
        if token.text == "alias" and code.at(index + 2) == "=":
            end = next((i for i in range(index, len(code.tokens)) if code.at(i) == ";"), len(code.tokens))
            found[code.at(index + 1)] = "".join(code.at(at) for at in range(index + 3, end))
    return found

"""The variants there are: exactly those that the Hub's cards name, and the list of our own."""

from pathlib import Path

import pytest

from kernel_lab.operators import operator

DATA = Path(__file__).parent.parent / "data"


def _listed(file: str) -> set[tuple[str, str]]:
    rows = [line.split() for line in (DATA / file).read_text().splitlines() if line and not line.startswith("#")]
    return {(name, variant) for name, variant in rows}


def test_variants_are_the_cards_and_our_own() -> None:
    """Set equality: nothing missing, nothing that no list knows."""
    there = {(op.id, variant.id) for op in operator.load_all().values() for variant in op.manifest.variants}
    assert there == _listed("variant-ids.txt") | _listed("own-variant-ids.txt")


def test_the_cards_name_83() -> None:
    cards = _listed("variant-ids.txt")
    assert len(cards) == 83
    assert not cards & _listed("own-variant-ids.txt")


@pytest.mark.parametrize("name", sorted(operator.load_all()))
def test_descriptions_say_what_differs(name: str) -> None:
    """At most 25 words, and no sentence shared by dozens of variants."""
    texts = [variant.description for variant in operator.named(name).manifest.variants]
    assert all(0 < len(text.split()) <= 25 for text in texts), [text for text in texts if len(text.split()) > 25]
    most = max(texts.count(text) for text in texts)
    assert most <= 4, f"one description stands {most} times"

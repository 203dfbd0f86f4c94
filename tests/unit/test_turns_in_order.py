"""Turns come in the order in which they were asked for, whoever leaves the line."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.browsing.turns import Turn, Turns


@given(st.lists(st.sampled_from(["wait", "leave at once", "leave while waiting"]), max_size=9))
def test_turns_come_in_order_whoever_leaves(asks: list[str]) -> None:
    """Never two at once, and none before those that were asked for earlier are over."""
    taken: list[int] = []
    now: set[int] = set()

    async def take(number: int, turn: Turn) -> None:
        try:
            async with turn:
                assert not now
                now.add(number)
                try:
                    await asyncio.sleep(0)
                finally:
                    now.remove(number)
                taken.append(number)
        finally:
            turn.leave()

    async def all_of_them() -> None:
        turns = Turns()
        tasks = []
        for number, how in enumerate(asks):
            turn = turns.ask()
            if how == "leave at once":
                turn.leave()
                continue
            tasks.append(asyncio.create_task(take(number, turn)))
            if how == "leave while waiting":
                await asyncio.sleep(0)
                tasks[-1].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)

    asyncio.run(all_of_them())
    assert taken == sorted(taken)
    assert set(taken) >= {number for number, how in enumerate(asks) if how == "wait"}

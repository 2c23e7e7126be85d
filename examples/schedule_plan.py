"""Runs a plan every weekday at nine, approved once by its hash.

Run it: `python schedule_plan.py`. A fake clock lets four days pass at once; with the real
clock, `await smith.schedules.run_forever()` fires what is due until it is cancelled.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from plansmith import Plansmith, read_plan, tool
from plansmith.plan.timing import make_timing
from plansmith.testing import FakeClock

CLOCK = FakeClock(datetime(2026, 11, 20, tzinfo=UTC))  # a Friday


@tool(effect="read")
def price(item: str) -> int:
    """The price of something."""
    print("asked on", CLOCK.now().strftime("%A at %H:%M UTC"))
    return 3


async def main() -> None:
    steps = [{"id": "tea", "tool": "price", "inputs": {"item": "tea"}}]
    plan = read_plan({"goal": "Watch the price of tea", "steps": steps})
    async with Plansmith(tools=[price], clock=CLOCK) as smith:
        timing = make_timing(cron="0 9 * * MON-FRI", timezone="Europe/Oslo")
        await smith.schedules.create(
            timing=timing, plan=plan, approve=plan.hash, name="tea", by="ada"
        )
        for due in await smith.schedules.next_fires("tea", count=2):
            print("due", due.isoformat())

        for _ in range(4 * 24):  # four days, an hour at a time
            await CLOCK.advance(timedelta(hours=1).total_seconds())
            await smith.schedules.tick()  # fires what is due
            await smith.schedules.carried()  # and waits for the runs
        for fire in await smith.schedules.history("tea"):
            run = await smith.get(fire.run)
            print(fire.state.value, run.result("tea"))


asyncio.run(main())

# Prints:
# due 2026-11-20T08:00:00+00:00
# due 2026-11-23T08:00:00+00:00
# asked on Friday at 08:00 UTC
# asked on Monday at 08:00 UTC
# done 3
# done 3

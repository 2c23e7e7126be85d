"""Plansmith in the runner bench, used as the README shows it."""

from __future__ import annotations

from lab.bench.runner_dags import TOOL, Dag
from plansmith import Plan, Plansmith, read_plan, tool
from plansmith.plan.limits import Limits


@tool(effect="read")
async def work(step: str, seconds: float, needs: list[str]) -> str:
    """Takes its time."""
    del needs
    return await TOOL.work(step, seconds)


@tool(effect="read")
def plain(step: str, seconds: float, needs: list[str]) -> str:
    """Does nothing."""
    del seconds, needs
    return step


@tool(effect="read")
async def idle() -> None:
    """Does nothing."""


@tool(effect="write")
async def write(step: str) -> str:
    """Changes something, so that a person is asked first."""
    return await TOOL.work(step, 0)


class Smith:
    """Submits plans and runs them."""

    def __init__(self, store: str, width: int) -> None:
        self._smith = Plansmith(tools=[work, plain, write], store=store, limits=Limits(width=width))

    async def load_code(self) -> None:
        """Runs a plan in memory, since Plansmith loads its code when it is first used."""
        async with Plansmith(tools=[idle], store="memory") as smith:
            run = await smith.submit(
                _plan({"goal": "load", "steps": [{"id": "s", "tool": "idle"}]})
            )
            await smith.run(run.id)

    async def start(self) -> None: ...

    def prepare(self, dag: Dag) -> Plan:
        steps = [
            {
                "id": name,
                "tool": "plain" if dag.plain else "work",
                "inputs": {
                    "step": f"{dag.name}.{name}",
                    "seconds": step.seconds,
                    "needs": [{"$from": need} for need in step.needs],
                },
            }
            for name, step in dag.steps.items()
        ]
        return _plan({"goal": dag.name, "steps": steps})

    async def submit(self, job: Plan) -> str:
        return (await self._smith.submit(job)).id

    async def run(self, job: str) -> None:
        run = await self._smith.run(job)
        assert run.status == "done", run.status

    async def park(self, number: int) -> tuple[str, str]:
        step = {"id": "s", "tool": "write", "inputs": {"step": f"p{number}"}}
        run = await self._smith.submit(_plan({"goal": f"p{number}", "steps": [step]}))
        assert run.status == "reviewing"
        assert run.plan is not None
        return run.id, run.plan.hash

    async def wake(self, parked: tuple[str, str]) -> None:
        run, digest = parked
        await self._smith.decide(run, approve=digest, by="bench")
        await self._smith.run(run)

    async def recover(self, dag: Dag) -> None:
        del dag
        runs = await self._smith.runs.resume_all()
        assert [run.status for run in runs] == ["done"]

    async def stop(self) -> None:
        await self._smith.close()


def _plan(value: object) -> Plan:
    plan = read_plan(value)
    assert isinstance(plan, Plan)
    return plan

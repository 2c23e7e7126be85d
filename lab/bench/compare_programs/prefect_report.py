"""Reads three sources at once, asks a person, and writes one file: with Prefect."""

import sys

import world
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState
from prefect.flow_runs import resume_flow_run, suspend_flow_run

read = task(world.read, persist_result=True)
write = task(world.write, persist_result=True)
notify = task(world.notify, persist_result=True)


@flow(persist_result=True)
def report() -> None:
    texts = ", ".join(read.map(world.SOURCES).result())
    notify(f"Write {texts}?")
    if suspend_flow_run(wait_for_input=str, key="approval") == "yes":
        write(texts)


def answer(word: str) -> None:
    paused = FlowRunFilter(state=FlowRunFilterState(type={"any_": ["PAUSED"]}))
    with get_client(sync_client=True) as client:
        [run] = client.read_flow_runs(flow_run_filter=paused)
    resume_flow_run(run.id, run_input={"value": word})


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(sys.argv[2])
    else:
        report.serve(name="report")

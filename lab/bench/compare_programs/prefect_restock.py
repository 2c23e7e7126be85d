"""Polls until a supplier is ready, at most five times, and orders if stock is low: Prefect."""

import time

import world
from prefect import flow, task

look = task(world.stock, persist_result=True)
order = task(world.order, persist_result=True)


@task(persist_result=True)
def poll(number: int) -> bool:
    del number  # Prefect knows a call by its inputs: without it, all polls would be one call
    return world.poll()


@flow(persist_result=True)
def restock() -> None:
    for number in range(world.POLLS):
        if number:
            time.sleep(world.PAUSE_S)
        if poll(number):
            break
    else:
        return
    if look() < 10:
        order(10)


if __name__ == "__main__":
    restock.serve(name="restock")

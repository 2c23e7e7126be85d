"""Reserves items, keeps the good ones, and releases them if confirming fails: with Prefect."""

import world
from prefect import flow, task

reserve = task(world.reserve, persist_result=True)
confirm = task(world.confirm, persist_result=True)
release = task(world.release, persist_result=True)


@flow(persist_result=True)
def booking() -> None:
    tries = reserve.map(world.ITEMS)
    tries.wait()
    reserved = [each.result() for each in tries if each.state.is_completed()]
    try:
        confirm(reserved)
    except world.Unavailable:
        release.map(reserved).result()


if __name__ == "__main__":
    booking.serve(name="booking")

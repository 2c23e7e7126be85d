"""Reserves items, keeps the good ones, and releases them if confirming fails: with LangGraph."""

import operator
import sys
from typing import Annotated, TypedDict

import world
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class State(TypedDict, total=False):
    reserved: Annotated[list[str], operator.add]
    confirmed: bool


def fan_out(_: State) -> list[Send]:
    return [Send("reserve", item) for item in world.ITEMS]


def reserve(item: str) -> State:
    try:
        return {"reserved": [world.reserve(item)]}
    except world.Unavailable:
        return {"reserved": []}


def confirm(state: State) -> State:
    try:
        world.confirm(state["reserved"])
    except world.Unavailable:
        return {"confirmed": False}
    return {"confirmed": True}


def fan_back(state: State) -> list[Send] | str:
    if state["confirmed"]:
        return END
    return [Send("release", each) for each in state["reserved"]]


def release(reservation: str) -> State:
    world.release(reservation)
    return {}


builder = StateGraph(State)
for node in (reserve, confirm, release):
    builder.add_node(node.__name__, node)
builder.add_conditional_edges(START, fan_out, ["reserve"])
builder.add_edge("reserve", "confirm")
builder.add_conditional_edges("confirm", fan_back, ["release", END])


def main(verb: str) -> None:
    with SqliteSaver.from_conn_string("runs.db") as saver:
        graph = builder.compile(checkpointer=saver)
        thread = {"configurable": {"thread_id": "booking"}}
        graph.invoke({} if verb == "start" else None, thread, durability="sync")


main(*sys.argv[1:])

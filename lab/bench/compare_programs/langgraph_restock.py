"""Polls until a supplier is ready, at most five times, and orders if stock is low: LangGraph."""

import sys
import time
from typing import TypedDict

import world
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    polls: int
    ready: bool
    stock: int


def poll(state: State) -> State:
    polls = state.get("polls", 0)
    if polls:
        time.sleep(world.PAUSE_S)
    return {"polls": polls + 1, "ready": world.poll()}


def after_poll(state: State) -> str:
    if state["ready"]:
        return "look"
    return "poll" if state["polls"] < world.POLLS else END


def look(_: State) -> State:
    return {"stock": world.stock()}


def order(_: State) -> State:
    world.order(10)
    return {}


builder = StateGraph(State)
for node in (poll, look, order):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "poll")
builder.add_conditional_edges("poll", after_poll)
builder.add_conditional_edges("look", lambda state: "order" if state["stock"] < 10 else END)


def main(verb: str) -> None:
    with SqliteSaver.from_conn_string("runs.db") as saver:
        graph = builder.compile(checkpointer=saver)
        thread = {"configurable": {"thread_id": "restock"}}
        graph.invoke({} if verb == "start" else None, thread, durability="sync")


main(*sys.argv[1:])

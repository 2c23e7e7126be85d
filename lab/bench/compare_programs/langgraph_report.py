"""Reads three sources at once, asks a person, and writes one file: with LangGraph."""

import operator
import sys
from typing import Annotated, TypedDict

import world
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt


class State(TypedDict, total=False):
    texts: Annotated[list[str], operator.add]
    approved: bool


def fan_out(_: State) -> list[Send]:
    return [Send("read", source) for source in world.SOURCES]


def read(source: str) -> State:
    return {"texts": [world.read(source)]}


def ask(state: State) -> State:
    return {"approved": interrupt(f"Write {', '.join(state['texts'])}?") == "yes"}


def write(state: State) -> State:
    world.write(", ".join(state["texts"]))
    return {}


builder = StateGraph(State)
for node in (read, ask, write):
    builder.add_node(node.__name__, node)
builder.add_conditional_edges(START, fan_out, ["read"])
builder.add_edge("read", "ask")
builder.add_conditional_edges("ask", lambda state: "write" if state["approved"] else END)


def main(verb: str, word: str = "") -> None:
    with SqliteSaver.from_conn_string("runs.db") as saver:
        graph = builder.compile(checkpointer=saver)
        given = {"start": {}, "answer": Command(resume=word), "resume": None}[verb]
        thread = {"configurable": {"thread_id": "report"}}
        result = graph.invoke(given, thread, durability="sync")
        for asked in result.get("__interrupt__", ()):
            world.notify(asked.value)


main(*sys.argv[1:])

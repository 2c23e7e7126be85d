"""The table of commands: where each is, what it does, its subject in `--help`; and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith import errors

if TYPE_CHECKING:
    import argparse


class Command(NamedTuple):
    """What a command is made of; one of another package also says what it does.

    `main` returns the exit code, or nothing where all is well.
    """

    configure: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int | None]
    summary: str = ""


class Entry(NamedTuple):
    """A row of the table: where a command of up to three words is, and what it does."""

    place: str
    summary: str


# The name of each command, where it is and what it does.
_ROWS: Final = """\
ask  ask:ASK  plan a request, run the plan, print the report
chat  chat:COMMAND  talk: requests that know what came before
plan  ask:PLAN  make a plan for a request, without running it
run  ask:RUN  run a plan file
go  ask:GO  go on with a run: review, answer, resume, whatever is next
approve  decide:APPROVE  approve the plan of a run, by its hash
reject  decide:REJECT  reject the plan of a run
answer  decide:ANSWER  answer a question of a run
runs  runs:COMMAND  list runs, or do something with one
runs watch  ask:WATCH  follow a run of another process
runs edit  decide:EDIT  edit the plan in $EDITOR
runs change  decide:CHANGE  describe changes to the plan, and plan again
runs undo  decide:UNDO  go back to the previous plan, or take effects back
runs skip  decide:SKIP  skip a step, and the steps that need it
runs pause  decide:PAUSE  pause a run
runs cancel  decide:CANCEL  cancel a run
runs retry  ask:RETRY  continue a run that is over from what is done
runs rerun  ask:RERUN  run the plan of a run again from the start
runs replay  report:REPLAY  replay a run offline and compare it
show  plans:SHOW  show a plan file or a run
report  report:COMMAND  print the report of a run as text, HTML or JSON
check  plans:CHECK  check a plan file
diff  plans:DIFF  compare two plans step by step
convert  plans:CONVERT  write a plan in another format, or as a program
threads  threads:LIST  list, show, undo or delete conversations
threads list  threads:LIST  list threads, the last one at the end
threads show  threads:SHOW  show what was said in a thread, and what came of it
threads undo  threads:UNDO  take back what a message was taken for
threads delete  threads:DELETE  delete a thread and its runs
templates  templates:LIST  save plans and use them again
templates list  templates:LIST  list all templates
templates show  templates:SHOW  show the parameters and the plan of a template
templates save  templates:SAVE  make a template of a run or a plan file
templates use  templates:USE  run a template, reviewed like any plan
templates suggest  templates:SUGGEST  find templates that fit a request
templates export  templates:EXPORT  write a template to a file
templates import  templates:IMPORT  read a template from a file, as the next version
templates remove  templates:REMOVE  remove a template
schedule  schedule:LIST  run plans at set times, unattended
schedule add  schedule:ADD  create a schedule from a request, a plan, a run or a template
schedule list  schedule:LIST  list all schedules
schedule show  schedule:SHOW  show a schedule: its plan, its next and its last fires
schedule change  schedule:CHANGE  change the times, the plan or the behaviour
schedule pause  schedule:PAUSE  pause a schedule
schedule resume  schedule:RESUME  resume a schedule
schedule run-now  schedule:RUN_NOW  fire once, now
schedule backfill  schedule:BACKFILL  queue fires for past times that were missed
schedule remove  schedule:REMOVE  remove a schedule
schedule history  schedule:HISTORY  list its past fires, newest first
schedule next  schedule:NEXT  print the next fires of a schedule, or of times you give
schedule keep  schedule:KEEP  fire what is due, until you stop it
team  help:VERBS  give a request to a team of agents
team research  team:RESEARCH  have a team research a question
team data  team:DATA  have a team query a database
tools  tools:LIST  list, search, show, approve or call tools
tools list  tools:LIST  list all tools
tools search  tools:SEARCH  find the tools that fit a request, and why
tools show  tools:SHOW  show a tool with its schemas
tools approve  tools:APPROVE  approve MCP servers and their tools
tools revoke  tools:REVOKE  revoke the approval of an MCP server or tool
tools call  tools:CALL  call one tool, reviewed like any plan
agents  tools:AGENTS  list, add, show or approve A2A agents
agents list  tools:AGENTS  list all agents
agents add  tools:ADD_AGENT  add an agent by its address
agents show  tools:SHOW_AGENT  show the card as it is served now, and what has changed
agents approve  tools:APPROVE_AGENT  approve the card that is served now
agents change  tools:CHANGE_AGENT  change the settings of an agent
agents remove  tools:REMOVE_AGENT  remove an agent
model  model:LIST  download, choose and check an embedded model
model list  model:LIST  list the known models, and which are downloaded
model pull  model:PULL  get a model from this machine or from the network
model use  model:USE  choose the model or the GGUF file that `local` means
model remove  model:REMOVE  delete a model's file
model check  model:CHECK  check that a model is undamaged and answers
trust  config:TRUST  trust the settings of a folder, or not
config  config:COMMAND  show the settings that count here, and their origin
config prompts  config:PROMPTS  list, show or export the prompts
config prompts list  config:PROMPTS  list the prompts, and which are replaced by yours
config prompts show  config:SHOW_PROMPT  show the text of a prompt
config prompts export  config:EXPORT_PROMPTS  copy all prompts into a folder, to change them there
serve  serve:COMMAND  serve the web page and the HTTP API
serve mcp  mcp:COMMAND  offer plans and runs as MCP tools, over stdio
serve worker  serve:WORKER  execute the runs of a shared store, without HTTP
tokens  tokens:LIST  create and revoke tokens for your server
tokens create  tokens:CREATE  create a token; it is printed only once
tokens list  tokens:LIST  list tokens and logged-in browsers
tokens revoke  tokens:REVOKE  revoke a token or a log-in
tokens link  tokens:LINK  make a one-time link that logs a browser in as you
tenants  tokens:TENANTS  create and remove the tenants of a server
tenants create  tokens:CREATE_TENANT  create a tenant: a store, a folder and settings
tenants list  tokens:TENANTS  list tenants, their folders and stores
tenants remove  tokens:REMOVE_TENANT  revoke its tokens and set its folder aside; its store is kept
store  help:VERBS  look after the store that keeps the runs
store doctor  store:DOCTOR  check the store, the model and the sandbox
store verify  store:VERIFY  check that a run's journal is unaltered
store repair  decide:REPAIR  repair a damaged run
store audit  store:AUDIT  export who did what and when, as JSON lines or CSV
store workers  store:WORKERS  list servers and workers, and what they execute
store prune  store:PRUNE  remove runs that ended long ago
store backup  store:BACKUP  copy the store to a file, beside live runs
store restore  store:RESTORE  put a backup in the place of the store
store vacuum  store:VACUUM  give unused space of the store back
demo  demo:COMMAND  take a tour of a minute: no model, no network, no files
help  help:COMMAND  explain a command, or a problem code such as PS301
completion  help:COMPLETION  print a script that completes commands in a shell
"""
COMMANDS: Final = {
    name: Entry(place, summary)
    for name, place, summary in (row.split("  ") for row in _ROWS.splitlines())
}

DAILY: Final = (
    *("ask", "chat", "plan", "run", "go", "approve", "reject", "answer"),
    *("runs", "show", "report", "serve", "model", "demo", "help"),
)
MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "plans": ("check", "diff", "convert"),
    "reuse": ("threads", "templates", "schedule"),
    "tools": ("tools", "agents", "team"),
    "operate": ("store", "tokens", "tenants"),
    "settings": ("config", "trust", "completion"),
}


def verbs(name: str) -> list[str]:
    """Returns the commands with one word more, such as `runs watch` for `runs`."""
    return [each for each in COMMANDS if each.rpartition(" ")[0] == name]


class Exit(IntEnum):
    """What a command's exit code means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    REFUSED = 4
    WAITING = 5
    BUDGET = 6
    PARTLY = 7
    INTERRUPTED = 130


_EXITS: Final = {
    errors.PlanInvalid: Exit.INVALID,
    errors.ModelFailed: Exit.FAILED,
    errors.ToolFailed: Exit.FAILED,
    errors.JournalError: Exit.FAILED,
    errors.NotFound: Exit.USAGE,
    errors.RunBusy: Exit.WAITING,
    errors.Refused: Exit.REFUSED,
}


def exit_for(error: errors.PlansmithError) -> Exit:
    """Returns the exit code of a command that ends with an error."""
    return next((code for kind, code in _EXITS.items() if isinstance(error, kind)), Exit.USAGE)

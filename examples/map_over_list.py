"""Runs one step for every item of a list that another step found, three at a time.

Run it: `python map_over_list.py`. An item that fails does not stop the others: with
`on_error: collect` its error takes its place in the list of results.
"""

from plansmith import Plansmith, ToolFailed, read_plan, tool

SIZES = {"a.txt": 120, "b.txt": 80, "d.txt": 300}


@tool(effect="read")
def find_files(folder: str) -> list[str]:
    """List the files of a folder."""
    return [f"{folder}/{name}" for name in ("a.txt", "b.txt", "c.txt", "d.txt")]


@tool(effect="read")
def size_of(path: str) -> int:
    """The size of a file."""
    name = path.rpartition("/")[2]
    if name not in SIZES:
        raise ToolFailed(f"{path} cannot be read")
    return SIZES[name]


PLAN = read_plan("""
goal: The sizes of all files
steps:
  - {id: files, tool: find_files, inputs: {folder: inbox}}
  - id: sizes
    over: "{{files}}"
    width: 3
    on_error: collect
    each: {tool: size_of, inputs: {path: "{{item}}"}}
""")

run = Plansmith(tools=[find_files, size_of]).do_sync(PLAN)
for path, size in zip(
    run.result("files", list[str]), run.result("sizes", list[object]), strict=True
):
    print(path, size)
print(run.status)

# Prints:
# inbox/a.txt 120
# inbox/b.txt 80
# inbox/c.txt {'error': {'kind': 'tool', 'message': 'inbox/c.txt cannot be read'}}
# inbox/d.txt 300
# done

"""Saves a run that worked as a template with a parameter, and uses it as a step of other plans.

Run it: `python sub_plan_and_template.py`. A saved version never changes: saving again makes version
2, and a plan that was approved with version 1 keeps running that.
"""

import asyncio

from plansmith import Plansmith, read_plan, tool


@tool(effect="read")
def weather(city: str) -> int:
    """The temperature in a city."""
    return {"Oslo": 12, "Rome": 24, "Bergen": 9}[city]


FIRST = read_plan("""
goal: The weather in Oslo
steps:
  - {id: now, tool: weather, inputs: {city: Oslo}}
  - {id: tell, say: "Oslo: {{now}} degrees"}
""")
COMPARE = read_plan("""
goal: The weather in three cities
steps:
  - id: cities
    over: [Oslo, Rome, Bergen]
    each: {template: city-weather, inputs: {city: "{{item}}"}}
""")


async def main() -> None:
    async with Plansmith(tools=[weather]) as smith:
        run = await smith.do(FIRST)
        places = ["now.inputs.city", "tell.instruction", "goal"]  # where "Oslo" is the parameter
        template = await smith.templates.save(run, "city-weather", parameters={"city": places})
        print(template.full_name, template.properties)

        run = await smith.run((await smith.templates.use("city-weather", {"city": "Rome"})).id)
        print(run.answer)

        run = await smith.do(COMPARE)  # the template as a sub-plan, once for each city
        for result in run.result("cities", list[dict[str, object]]):
            print(result)


asyncio.run(main())

# Prints:
# city-weather@1 {'city': {'type': 'string', 'default': 'Oslo'}}
# Rome: 24 degrees
# {'now': 12, 'tell': 'Oslo: 12 degrees'}
# {'now': 24, 'tell': 'Rome: 24 degrees'}
# {'now': 9, 'tell': 'Bergen: 9 degrees'}

"""Tuning folders of the folder bench that are mostly texts: a server's logs, a team's meetings."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta

from lab.bench.desk_cases import Asks, Clock, Day, Folder, Wrote, each, number, words
from lab.bench.desk_files import Row, listing, table, text

LEVELS = ("INFO", "WARNING", "ERROR")
TROUBLES = {
    "INFO": ("request served", "cache refreshed", "session opened", "job finished"),
    "WARNING": ("slow query", "disk at 85 percent", "retrying upload"),
    "ERROR": (
        "payment gateway timeout",
        "database connection lost",
        "invalid token",
        "upload failed",
    ),
}


def app_log(seed: int, count: int, start: datetime) -> list[str]:
    """Lines as an application logs them."""
    pick = random.Random(seed)
    lines: list[str] = []
    for _ in range(count):
        start += timedelta(seconds=pick.randint(5, 140))
        level = pick.choices(LEVELS, (30, 4, 2))[0]
        node = pick.choice(("web-1", "web-2", "worker-1"))
        lines.append(f"{start:%Y-%m-%d %H:%M:%S} {level} [{node}] {pick.choice(TROUBLES[level])}")
    return lines


def server_data() -> dict[str, list[str]]:
    """The logs of the server."""
    return {
        "logs/app.log": app_log(1711, 2400, datetime(2026, 5, 4, tzinfo=UTC)),
        "logs/app-old.log": app_log(1712, 900, datetime(2026, 4, 27, tzinfo=UTC)),
        "logs/worker.log": app_log(1713, 300, datetime(2026, 5, 4, tzinfo=UTC)),
    }


def deploys() -> list[Row]:
    """What was rolled out when."""
    pick = random.Random(1714)
    return [
        {
            "version": f"4.{place // 6}.{place % 6}",
            "date": (date(2026, 1, 5) + timedelta(days=3 * place)).isoformat(),
            "by": pick.choice(("hanna", "igor", "mei")),
            "minutes": pick.randint(3, 44),
            "result": "rolled back" if place in (7, 19, 31) else "ok",
        }
        for place in range(40)
    ]


def server() -> Folder:
    """The logs, settings and incident reports of a web application."""
    logs, rolled = server_data(), deploys()
    settings = {
        "port": 8080,
        "workers": 4,
        "timeout_s": 30,
        "log_level": "info",
        "region": "eu-west",
    }
    files = {path: ("\n".join(lines) + "\n").encode() for path, lines in logs.items()} | {
        "deploys.csv": table(rolled),
        "config.json": listing(settings | {"timeout_s": 45, "workers": 6}),
        "config.old.json": listing(settings),
        "incidents/2026-03-11.md": text(
            "# Incident of 11 March 2026",
            "The payment page was down from 14:05 to 14:52. Cause: the certificate of the gateway had run out. "
            "Found by Mei, mended by Igor. 213 orders were lost.",
            "To do: watch the dates of certificates; Hanna, until 20 March.",
        ),
        "incidents/2026-04-29.md": text(
            "# Incident of 29 April 2026",
            "Searches were slow for three hours. Cause: an index was missing after version 4.6.1. Mended by Hanna.",
            "Nobody lost data. The alert came 40 minutes late because its threshold was too high.",
        ),
        "runbook.md": text(
            "# Runbook",
            "Restart the workers with `systemctl restart desk-workers`. The password of the database is in the "
            "vault under `prod/db`. On-call changes every Wednesday at 10:00.",
            "Backups run at 02:30 every night and are kept for 35 days. The person to call about backups is "
            "Tomasz Zielinski, extension 4417.",
        ),
        "servers.csv": table(
            [
                {
                    "name": "web-1",
                    "cores": 8,
                    "memory_gb": 32,
                    "system": "Debian 12",
                    "place": "Frankfurt",
                },
                {
                    "name": "web-2",
                    "cores": 8,
                    "memory_gb": 32,
                    "system": "Debian 12",
                    "place": "Frankfurt",
                },
                {
                    "name": "worker-1",
                    "cores": 16,
                    "memory_gb": 64,
                    "system": "Debian 13",
                    "place": "Dublin",
                },
                {
                    "name": "db-1",
                    "cores": 32,
                    "memory_gb": 256,
                    "system": "Debian 12",
                    "place": "Dublin",
                },
            ]
        ),
    }
    q = Asks("server")

    def having(path: str, *parts: str) -> int:
        return sum(all(part in line for part in parts) for line in logs[path])

    q.add(
        "count lines",
        "en",
        "How many errors are in logs/app.log?",
        number(having("logs/app.log", " ERROR ")),
        proof="SELECT COUNT(*) FROM lines WHERE path = 'logs/app.log' AND text LIKE '% ERROR %'",
    )
    q.add(
        "count lines",
        "zh",
        "logs/worker.log 有多少行？",
        number(300),
        proof="SELECT COUNT(*) FROM lines WHERE path = 'logs/worker.log'",
    )
    q.add(
        "count lines",
        "en",
        "how often does 'database connection lost' occur in app.log?",
        number(having("logs/app.log", "database connection lost")),
        proof="SELECT COUNT(*) FROM lines WHERE path = 'logs/app.log' AND text LIKE '%database connection lost%'",
    )
    q.add(
        "count lines",
        "zh",
        "app-old.log 里有多少条警告（WARNING）？",
        number(having("logs/app-old.log", " WARNING ")),
        proof="SELECT COUNT(*) FROM lines WHERE path = 'logs/app-old.log' AND text LIKE '% WARNING %'",
    )
    q.add(
        "which file",
        "en",
        "Which files mention the payment gateway?",
        *each("app.log", "app-old.log", "worker.log"),
        must_not=each("runbook.md"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%payment gateway%'",
    )
    q.add(
        "which file",
        "en",
        "Which incident report talks about a certificate?",
        words("2026-03-11", "11 March 2026"),
        must_not=each("2026-04-29"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%certificate%' AND path LIKE 'incidents%'",
    )
    q.add(
        "find files",
        "en",
        "list all log files",
        *each("app.log", "app-old.log", "worker.log"),
        must_not=each("servers.csv"),
        proof="SELECT path FROM files WHERE path LIKE '%.log'",
    )
    q.add(
        "document",
        "en",
        "Who mended the incident in March?",
        words("Igor"),
        proof="SELECT 'Igor' FROM lines WHERE text LIKE '%mended by Igor%'",
    )
    q.add(
        "document",
        "en",
        "How many orders were lost when the payment page was down?",
        number(213),
        proof="SELECT text FROM lines WHERE text LIKE '%orders were lost%'",
    )
    q.add(
        "document",
        "zh",
        "备份保留多少天？",
        number(35),
        proof="SELECT text FROM lines WHERE text LIKE '%kept for 35 days%'",
    )
    q.add(
        "document",
        "en",
        "Who do I call about backups, and on which extension?",
        words("Zielinski"),
        number(4417),
        proof="SELECT GROUP_CONCAT(text) FROM lines WHERE path = 'runbook.md'",
    )
    q.add(
        "document",
        "zh",
        "config.json 里的超时（timeout_s）是多少秒？",
        number(45),
        must_not=(number(30),),
        proof="SELECT 45 FROM lines WHERE path = 'config.json' AND text LIKE '%timeout_s%45%'",
    )
    q.add(
        "compare",
        "en",
        "What changed between config.old.json and config.json?",
        *each("timeout_s", "workers"),
        must_not=each("log_level"),
        proof="SELECT GROUP_CONCAT(text) FROM lines WHERE path = 'config.json' AND text NOT IN "
        "(SELECT text FROM lines WHERE path = 'config.old.json')",
    )
    q.add(
        "filter",
        "en",
        "Which versions were rolled back?",
        *each(*[row["version"] for row in rolled if row["result"] != "ok"]),
        proof="SELECT version FROM deploys WHERE result = 'rolled back'",
    )
    q.add(
        "per group",
        "zh",
        "每个人各部署了多少次？",
        *map(number, Counter(row["by"] for row in rolled).values()),
        proof='SELECT "by", COUNT(*) FROM deploys GROUP BY "by"',
    )
    q.add(
        "top",
        "en",
        "What was the longest deploy and how many minutes did it take?",
        number(max(row["minutes"] for row in rolled)),
        proof="SELECT MAX(minutes) FROM deploys",
    )
    q.add(
        "average",
        "zh",
        "平均每次部署要多少分钟？",
        number(sum(row["minutes"] for row in rolled) / 40),
        proof="SELECT AVG(minutes) FROM deploys",
    )
    q.add(
        "aggregate",
        "en",
        "How many cores do all servers have together?",
        number(64),
        proof="SELECT SUM(cores) FROM servers",
    )
    q.add(
        "summarise",
        "en",
        "Summarise the incident of 29 April",
        words("index"),
        proof="SELECT text FROM lines WHERE path = 'incidents/2026-04-29.md'",
    )
    q.add(
        "chart",
        "zh",
        "用柱状图显示每个人的部署次数，保存为 deploys.svg",
        files=(Wrote("deploys.svg", each("hanna", "igor", "mei")),),
        proof='SELECT DISTINCT "by" FROM deploys',
    )
    q.add(
        "write note",
        "en",
        "Create a file todo.txt that says: renew the certificate before 1 March",
        files=(Wrote("todo.txt", each("renew the certificate before 1 March")),),
    )
    q.add("time", "zh", "现在纽约几点？", Clock("America/New_York"))
    q.add("units", "en", "How many MB are 3.5 GB?", words("3500", "3,500", "3584", "3,584"))
    return Folder("server", files, tuple(q.all))


PEOPLE: tuple[str, ...] = ("Anna", "Bruno", "Carla", "David", "Elif", "Farid", "Grete", "Hugo")
TOPICS = (
    ("the new website", "The start page gets a search field and fewer pictures."),
    ("the summer fair", "We need two tents, a generator and forty benches."),
    ("the budget", "Travel was cheaper than planned, print was dearer."),
    ("hiring", "Two people applied for the post at the front desk."),
    ("the newsletter", "It goes out on the first Tuesday of each month."),
    ("the office move", "The lift in the new house is too small for the big table."),
    ("the training day", "Most people would like to learn more about first aid."),
)


def _meeting(place: int, day: date, pick: random.Random) -> tuple[list[str], str]:
    """Who attended a meeting, and its notes."""
    there = sorted(pick.sample(PEOPLE, 4))
    topics = pick.sample(TOPICS, 3)
    deeds = [
        f"- {there[spot]}: write a list for {topic} by {day + timedelta(days=7 + spot):%d %B %Y}"
        for spot, (topic, _) in enumerate(topics)
    ]
    talk = "\n\n".join(
        f"## {topic.capitalize()}\n\n{said} {there[-1]} asked who would pay for it; {there[0]} will find out. "
        f"The group spoke about it for {pick.randint(5, 30)} minutes and agreed to come back to it."
        for topic, said in topics
    )
    body = (
        f"# Team meeting {place}, {day:%d %B %Y}\n\nAttended: {', '.join(there)}\n\n{talk}\n\n"
        f"## To do\n\n" + "\n".join(deeds)
    )
    return there, body


def meetings() -> Folder:
    """A year's notes of a team, with lists and a few letters."""
    pick = random.Random(1715)
    days = [date(2026, 1, 12) + timedelta(days=14 * place) for place in range(16)]
    notes = [_meeting(place, day, pick) for place, day in enumerate(days, start=1)]
    files = {
        f"notes/{day.isoformat()}-meeting.md": text(body)
        for day, (_, body) in zip(days, notes, strict=True)
    } | {
        "fair/plan.md": text(
            "# Summer fair",
            "The fair is on Saturday 4 July 2026 from 11:00 to 19:00 in the park at the old mill.",
            "Carla rents the tents (380 euros for two), Hugo brings the generator. The brass band of Oberau plays "
            "from 15:00 on and gets 600 euros.",
            "If it rains the fair is put off to 11 July.",
        ),
        "fair/costs.csv": table(
            [
                {"item": "tents", "euros": 380, "paid": "yes"},
                {"item": "band", "euros": 600, "paid": "no"},
                {"item": "benches", "euros": 220, "paid": "yes"},
                {"item": "drinks", "euros": 745, "paid": "no"},
                {"item": "posters", "euros": 96, "paid": "yes"},
                {"item": "insurance", "euros": 158, "paid": "no"},
            ]
        ),
        "office/new-address.txt": text(
            "From 1 September 2026 our address is Gartenweg 17, 88131 Lindau. The keys are with Grete. "
            "The landlord is Mr Sattler, phone 08382 555 0140."
        ),
        "office/inventory.csv": table(
            [
                {
                    "thing": thing,
                    "room": pick.choice(("kitchen", "hall", "office", "cellar")),
                    "count": pick.randint(1, 24),
                }
                for thing in [
                    "chair",
                    "table",
                    "lamp",
                    "shelf",
                    "printer",
                    "kettle",
                    "monitor",
                    "plant",
                    "clock",
                    "ladder",
                    "fan",
                    "sofa",
                ]
            ]
        ),
        "ideas.txt": text(
            "Ideas that nobody has had time for",
            "A bicycle for errands. A quiet room. Fruit on Mondays. Elif would like a chess board in the kitchen.",
        ),
        "todo.md": text(
            "# To do\n\n- [ ] call the landlord\n- [x] order paper\n- [ ] print posters\n- [x] book the band"
        ),
    }
    inventory = [
        line.split(",") for line in files["office/inventory.csv"].decode().splitlines()[1:]
    ]
    q = Asks("meetings")
    first, last = notes[0][0], notes[-1][0]
    q.add(
        "document",
        "en",
        "Who attended the meeting on 12 January 2026?",
        *each(*first),
        must_not=each(*[name for name in PEOPLE if name not in first]),
        proof="SELECT text FROM lines WHERE path LIKE '%2026-01-12%' AND text LIKE 'Attended%'",
    )
    q.add(
        "document",
        "zh",
        f"{days[-1].month}月{days[-1].day}日的会议有谁参加了？",
        *each(*last),
        proof=f"SELECT text FROM lines WHERE path LIKE '%{days[-1]}%' AND text LIKE 'Attended%'",
    )
    q.add(
        "document",
        "en",
        "When is the summer fair?",
        Day(date(2026, 7, 4)),
        proof="SELECT text FROM lines WHERE text LIKE '%The fair is on%'",
    )
    q.add(
        "document",
        "en",
        "how much does the band get?",
        number(600),
        proof="SELECT text FROM lines WHERE text LIKE '%gets 600%' OR text LIKE '%600 euros%'",
    )
    q.add(
        "document",
        "zh",
        "新办公室的地址是什么？",
        words("Gartenweg 17"),
        proof="SELECT text FROM lines WHERE path LIKE '%new-address%'",
    )
    q.add(
        "document",
        "en",
        "Who has the keys of the new office?",
        words("Grete"),
        proof="SELECT 'Grete' FROM lines WHERE text LIKE '%keys are with Grete%'",
    )
    q.add(
        "document",
        "zh",
        "如果下雨，集市改到哪一天？",
        Day(date(2026, 7, 11)),
        proof="SELECT text FROM lines WHERE text LIKE '%it rains%'",
    )
    q.add(
        "document",
        "en",
        "What does Elif want in the kitchen?",
        words("chess"),
        proof="SELECT text FROM lines WHERE text LIKE '%Elif would like%'",
    )
    q.add(
        "document",
        "en",
        "What is still to do in todo.md?",
        *each("call the landlord", "print posters"),
        proof="SELECT text FROM lines WHERE path = 'todo.md' AND text LIKE '- [ ]%'",
    )
    q.add(
        "not there",
        "en",
        "What does the summer fair's fireworks cost?",
        must_not=(number(600), number(380)),
        expects="absent",
    )
    q.add(
        "which file",
        "en",
        "Which file mentions Mr Sattler?",
        words("new-address.txt"),
        must_not=each("plan.md", "ideas.txt"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%Sattler%'",
    )
    q.add(
        "find files",
        "zh",
        "这个文件夹里有多少份会议记录？",
        number(16),
        proof="SELECT COUNT(*) FROM files WHERE path LIKE 'notes/%'",
    )
    q.add(
        "aggregate",
        "en",
        "What do all items of the fair cost together?",
        number(2199),
        proof="SELECT SUM(euros) FROM costs",
    )
    q.add(
        "filter",
        "zh",
        "集市还有哪些费用没有付？",
        *each("band", "drinks", "insurance"),
        must_not=each("posters"),
        proof="SELECT item FROM costs WHERE paid = 'no'",
    )
    q.add(
        "filter",
        "en",
        "how much of the fair is not paid yet in euros?",
        number(1503),
        proof="SELECT SUM(euros) FROM costs WHERE paid = 'no'",
    )
    chairs = next(row for row in inventory if row[0] == "chair")
    q.add(
        "filter",
        "en",
        "In which room are the chairs, and how many are there?",
        words(chairs[1]),
        number(int(chairs[2])),
        proof="SELECT room, count FROM inventory WHERE thing = 'chair'",
    )
    q.add(
        "summarise",
        "en",
        "Give me a summary of fair/plan.md",
        words("4 July", "July 4", "2026-07-04"),
        proof="SELECT GROUP_CONCAT(text) FROM lines WHERE path = 'fair/plan.md'",
    )
    q.add(
        "summarise",
        "zh",
        "ideas.txt 里写了什么？",
        words("chess", "象棋", "国际象棋"),
        proof="SELECT GROUP_CONCAT(text) FROM lines WHERE path = 'ideas.txt'",
    )
    q.add(
        "write note",
        "en",
        "Add a line 'buy fruit' to ideas.txt",
        files=(Wrote("ideas.txt", each("buy fruit", "A bicycle for errands")),),
    )
    q.add(
        "write note",
        "en",
        "Write a short summary of fair/plan.md to summary.md",
        files=(Wrote("summary.md", (words("July"),)),),
    )
    q.add(
        "date",
        "en",
        "How many days are there between 12 January 2026 and 4 July 2026?",
        number(173),
        proof="SELECT julianday('2026-07-04') - julianday('2026-01-12')",
    )
    today = datetime.now().astimezone().date()
    eve = date(today.year, 12, 24)
    days_left = ((eve if today <= eve else eve.replace(year=today.year + 1)) - today).days
    q.add("date", "zh", "离12月24日还有多少天？", number(days_left))
    q.add(
        "date",
        "en",
        "What weekday was 4 July 2026?",
        words("Saturday"),
        proof="SELECT 'Saturday' WHERE strftime('%w', '2026-07-04') = '6'",
    )
    q.add("greeting", "en", "hello there", expects="reply")
    q.add("missing value", "zh", "重命名文件", expects="question")
    return Folder("meetings", files, tuple(q.all))

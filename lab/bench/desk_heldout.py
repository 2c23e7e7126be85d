"""HELD OUT: contracts and staff of the folder bench. Whoever trains or tunes does not read this file."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta

from lab.bench.desk_cases import Asks, Clock, Day, Folder, Gone, Wrote, each, number, words
from lab.bench.desk_files import Row, listing, pdf, table, text
from lab.bench.desk_tables import best, sums

_BOILER = (
    "Changes to this agreement are valid only in writing. Should a clause be void, the others stay in force. "
    "Each party keeps the affairs of the other confidential for two years after the end. The place of "
    "jurisdiction is Constance. Each party has received a signed copy."
)


def _contract(title: str, parties: str, *clauses: str) -> bytes:
    numbered = (f"{place}. {clause}" for place, clause in enumerate(clauses, start=1))
    return text(title.upper(), f"between {parties}", *numbered, _BOILER)


def payments() -> list[Row]:
    """What was paid for which contract."""
    pick = random.Random(2701)
    rates = {"lease": 1850.0, "cleaning": 412.5, "internet": 59.9, "van": 379.0, "insurance": 96.4}
    return [
        {
            "paid_on": date(
                2025 + (month - 1) // 12, (month - 1) % 12 + 1, pick.randint(1, 28)
            ).isoformat(),
            "contract": name,
            "amount": rate + (pick.choice((0, 0, 0, 25.0)) if name == "cleaning" else 0),
            "account": pick.choice(("main", "savings")),
        }
        for month in range(1, 17)
        for name, rate in rates.items()
    ]


def contracts() -> Folder:
    """The contracts of a workshop, with offers, letters and payments."""
    paid = payments()
    lease = _contract(
        "Lease of business premises",
        "Hofmann Estates (landlord) and Torvik Instruments (tenant)",
        "The landlord lets the workshop at Hafenstrasse 22, ground floor, 210 square metres.",
        "The lease begins on 1 April 2023 and ends on 31 March 2028. It may be extended by three years.",
        "The rent is 1,850 euros a month, due on the third working day.",
        "The tenant pays a deposit of 5,550 euros before moving in.",
        "Notice is nine months to the end of a quarter, by registered letter.",
    )
    files = {
        "contracts/lease.txt": lease,
        "contracts/cleaning.txt": _contract(
            "Cleaning services",
            "Blanka Services and Torvik Instruments",
            "The workshop is cleaned every Monday and Thursday after 18:00.",
            "The fee is 412.50 euros a month. Windows are cleaned twice a year for 25 euros each time.",
            "The contract runs from 15 June 2024 and may be ended with six weeks' notice. Contact: Mrs Blanka Novak.",
        ),
        "contracts/van-leasing.txt": _contract(
            "Vehicle leasing",
            "Rheintal Mobil and Torvik Instruments",
            "One van with the number plate KN-TV 208, delivered on 2 September 2024.",
            "The rate is 379 euros a month for 48 months. 20,000 kilometres a year are included; each more costs 9 cents.",
            "The van is returned on 1 September 2028, with winter tyres.",
        ),
        "contracts/internet.txt": _contract(
            "Internet access",
            "Bodensee Net and Torvik Instruments",
            "Bandwidth 500 Mbit/s, installed on 11 November 2024, customer number 77-4410.",
            "The fee is 59.90 euros a month. Faults are mended within eight hours; the hotline is 07531 555 300.",
        ),
        "contracts/employment-yilmaz.txt": _contract(
            "Contract of employment",
            "Torvik Instruments and Ms Deniz Yilmaz",
            "Ms Yilmaz is employed as instrument maker from 1 February 2025, with six months of probation.",
            "She works 36 hours a week and earns 3,420 euros a month. She has 29 days of holiday a year.",
            "After probation either side may give notice of three months.",
        ),
        "contracts/insurance.pdf": pdf(
            "BUSINESS INSURANCE\nPolicy number 55-902-13, Nordlicht Insurance\n\n"
            "Insured: Torvik Instruments, Hafenstrasse 22\nThe policy covers fire, water and theft up to 350,000 euros.",
            "Premium\nThe premium is 96.40 euros a month. The excess is 500 euros a case.\n"
            "Damage has to be reported within 7 days to Mr Aron Feld.",
        ),
        "offers/roofing.txt": text(
            "Offer of Dachbau Keller, 3 May 2026: new roof for the shed, 8,940 euros, valid until 30 June 2026."
        ),
        "offers/roofing-2.txt": text(
            "Offer of Seeblick Roofs, 12 May 2026: new roof for the shed, 9,310 euros, valid until 15 July 2026."
        ),
        "letters/2026-02-03-landlord.txt": text(
            "Dear Mr Torvik, from 1 July 2026 the heating costs rise by 35 euros a month. The caretaker is now "
            "Mr Emil Sorg. Kind regards, Hofmann Estates"
        ),
        "letters/租约说明.txt": text(
            "租约由霍夫曼公司管理。如需维修,请在工作日上午九点到十二点联系管理员索格先生。停车位编号为 B-14。"
        ),
        "payments.csv": table(paid),
    }
    q = Asks("contracts")
    per = sums(paid, "contract", lambda row: row["amount"])
    q.add(
        "document",
        "en",
        "When does the lease in contracts/lease.txt end?",
        Day(date(2028, 3, 31)),
        proof="SELECT text FROM lines WHERE path = 'contracts/lease.txt' AND text LIKE '%ends on%'",
    )
    q.add(
        "document",
        "en",
        "How high is the deposit for the workshop?",
        number(5550),
        proof="SELECT text FROM lines WHERE text LIKE '%deposit%'",
    )
    q.add(
        "document",
        "zh",
        "租约的解约通知期是多长？",
        words("nine months", "9 months", "九个月", "9个月", "9 个月"),
        proof="SELECT text FROM lines WHERE text LIKE '%nine months%'",
    )
    q.add(
        "document",
        "en",
        "how many holidays does Deniz Yilmaz have a year",
        number(29),
        proof="SELECT text FROM lines WHERE text LIKE '%days of holiday%'",
    )
    q.add(
        "document",
        "en",
        "What does each extra kilometre with the van cost?",
        words("9 cent", "0.09", "9 ct"),
        proof="SELECT text FROM lines WHERE text LIKE '%kilometres%'",
    )
    q.add(
        "document",
        "zh",
        "清洁公司每周哪几天来打扫？",
        words("Monday", "周一", "星期一"),
        words("Thursday", "周四", "星期四"),
        proof="SELECT text FROM lines WHERE text LIKE '%cleaned every%'",
    )
    q.add(
        "document",
        "en",
        "Up to which sum does our insurance cover theft?",
        number(350_000),
        proof="SELECT text FROM lines WHERE text LIKE '%theft%'",
    )
    q.add(
        "document",
        "zh",
        "保险理赔要在几天内报告？向谁报告？",
        number(7),
        words("Feld"),
        proof="SELECT GROUP_CONCAT(text) FROM lines WHERE text LIKE '%reported within%' OR text LIKE '%Feld%'",
    )
    q.add(
        "document",
        "zh",
        "停车位的编号是什么？",
        words("B-14"),
        proof="SELECT text FROM lines WHERE text LIKE '%停车位%'",
    )
    q.add(
        "document",
        "en",
        "Which roofing offer is cheaper?",
        words("Dachbau Keller", "8,940", "8940"),
        proof="SELECT text FROM lines WHERE text LIKE '%8,940%'",
    )
    q.add(
        "not there",
        "en",
        "Which contract mentions a gym membership?",
        must_not=each("lease.txt"),
        expects="absent",
    )
    q.add(
        "which file",
        "en",
        "In which contract is Blanka Novak named?",
        words("cleaning"),
        must_not=each("van-leasing"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%Novak%'",
    )
    q.add(
        "which file",
        "zh",
        "哪份文件提到了车牌 KN-TV 208？",
        words("van-leasing"),
        must_not=each("internet.txt"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%KN-TV 208%'",
    )
    q.add(
        "aggregate",
        "en",
        "How much did we pay for the van in total so far?",
        number(per["van"]),
        proof="SELECT SUM(amount) FROM payments WHERE contract = 'van'",
    )
    q.add(
        "per group",
        "en",
        "sum of payments per contract",
        *map(number, per.values()),
        proof="SELECT contract, SUM(amount) FROM payments GROUP BY contract",
    )
    in_2026 = sum(row["amount"] for row in paid if row["paid_on"] >= "2026")
    q.add(
        "filter",
        "zh",
        "2026年一共付了多少钱？",
        number(in_2026),
        proof="SELECT SUM(amount) FROM payments WHERE paid_on >= '2026'",
    )
    march = sum(row["amount"] for row in paid if row["paid_on"].startswith("2026-03"))
    february = "How much did we pay in February 2026?"
    q.add(
        "follow-up",
        "en",
        "the same for March",
        number(march),
        before=february,
        proof="SELECT SUM(amount) FROM payments WHERE paid_on LIKE '2026-03%'",
    )
    main = [row for row in paid if row["account"] == "savings"]
    q.add(
        "save table",
        "zh",
        "把 savings 账户的付款保存为 savings.csv",
        files=(Wrote("savings.csv", each("savings"), each("main"), rows=len(main)),),
        proof="SELECT COUNT(*), 'savings' FROM payments WHERE account = 'savings'",
    )
    q.add(
        "move",
        "en",
        "Rename offers/roofing-2.txt to offers/seeblick.txt",
        files=(
            Wrote("offers/seeblick.txt", same_as="offers/roofing-2.txt"),
            Gone("offers/roofing-2.txt"),
        ),
    )
    q.add(
        "chart",
        "en",
        "Make a bar chart of the total per contract and save it as totals.svg",
        files=(Wrote("totals.svg", each("lease", "van", "internet")),),
        proof="SELECT DISTINCT contract FROM payments",
    )
    q.add(
        "write note",
        "zh",
        "写一个文件 note.md，内容是：租约 2028 年到期",
        files=(Wrote("note.md", (words("租约 2028 年到期", "租约2028年到期"),)),),
    )
    q.add(
        "arithmetic",
        "en",
        "what's 1850 * 12 + 59.9 * 12?",
        number(22_918.8),
        proof="SELECT 1850 * 12 + 59.9 * 12",
    )
    q.add(
        "date",
        "en",
        "how many days from 1 April 2023 to 31 March 2028?",
        number((date(2028, 3, 31) - date(2023, 4, 1)).days),
        proof="SELECT julianday('2028-03-31') - julianday('2023-04-01')",
    )
    q.add("impossible", "zh", "请给房东打个电话", expects="decline")
    q.add("greeting", "en", "good morning!", expects="reply")
    return Folder("contracts", files, tuple(q.all))


def staff_data() -> dict[str, list[Row]]:
    """The tables of the personnel office."""
    pick = random.Random(2702)
    first = [
        "Alma",
        "Boris",
        "Celia",
        "Dario",
        "Edda",
        "Felix",
        "Gina",
        "Henri",
        "Iris",
        "Jorge",
        "Kira",
        "Lars",
        "Mona",
        "Nils",
        "Olga",
        "Pavel",
        "Rita",
        "Sven",
    ]
    last = ["Abel", "Brandt", "Conti", "Duarte", "Ekström"]
    teams = ("Assembly", "Logistics", "Research", "Sales", "Support")
    people: list[Row] = [
        {
            "id": 100 + place,
            "name": f"{first[place % 18]} {last[place // 18]}",
            "team": pick.choices(teams, (6, 4, 3, 3, 2))[0],
            "site": pick.choice(("Graz", "Linz", "Wels")),
            "hired": (date(2012, 1, 9) + timedelta(days=pick.randrange(5000))).isoformat(),
            "salary": pick.randrange(2400, 6900, 10),
            "hours": pick.choice((20, 30, 38)),
        }
        for place in range(85)
    ]
    absences: list[Row] = [
        {
            "employee_id": 100 + pick.randrange(85),
            "from": (date(2026, 1, 5) + timedelta(days=pick.randrange(280))).isoformat(),
            "days": pick.randint(1, 12),
            "reason": pick.choices(("holiday", "illness", "training"), (6, 3, 1))[0],
        }
        for _ in range(460)
    ]
    return {"employees": people, "absences": absences}


def staff() -> Folder:
    """A personnel office: people, absences, rules, applications."""
    data = staff_data()
    people, absences = data["employees"], data["absences"]
    files = {f"{name}.csv": table(rows) for name, rows in data.items()} | {
        "rooms.json": listing(
            [
                {"room": "Danube", "floor": 1, "seats": 14, "screen": True},
                {"room": "Enns", "floor": 2, "seats": 6, "screen": False},
                {"room": "Mur", "floor": 2, "seats": 24, "screen": True},
                {"room": "Traun", "floor": 3, "seats": 9, "screen": True},
            ]
        ),
        "policies/home-office.md": text(
            "# Working from home",
            "Everybody may work from home on two days a week, Support on one day.",
            "Tell your team by Thursday noon of the week before. The firm pays 35 euros a month towards the connection.",
        ),
        "policies/travel.md": text(
            "# Travel",
            "Trains are booked second class; from four hours on first class is allowed.",
            "The daily allowance is 26.40 euros. Receipts are handed to Ulrike Moser within three weeks.",
        ),
        "policies/加班规定.md": text(
            "# 加班规定",
            "每月加班不得超过 20 小时。加班需提前一天由组长批准。周末加班按 1.5 倍计算。",
        ),
        "applications/2026-05-kessler.txt": text(
            "Application of Tobias Kessler for the post of technician in Wels. He could start on 1 September 2026 and "
            "asks for 3,150 euros a month. He has worked at Voltana for six years."
        ),
        "applications/2026-05-sandoval.txt": text(
            "Application of Lucia Sandoval for the post of technician in Wels. She could start on 15 July 2026 and asks "
            "for 3,300 euros a month. She speaks German, Spanish and English."
        ),
        "minutes/works-council-2026-04-16.txt": text(
            "Works council, 16 April 2026. Present: Alma Abel, Henri Brandt, Rita Conti. The summer party is on "
            "26 June in Linz. The canteen will be closed from 3 to 14 August. Rita Conti was elected chair with two votes."
        ),
    }
    q = Asks("staff")
    by_team = Counter(row["team"] for row in people)
    pay = {row["id"]: row for row in people}
    q.add(
        "aggregate",
        "en",
        "How many people work here?",
        number(85),
        proof="SELECT COUNT(*) FROM employees",
    )
    q.add(
        "aggregate",
        "zh",
        "所有员工的月工资总和是多少？",
        number(sum(row["salary"] for row in people)),
        proof="SELECT SUM(salary) FROM employees",
    )
    q.add(
        "filter",
        "en",
        "how many employees in Linz earn more than 5000?",
        number(sum(row["site"] == "Linz" and row["salary"] > 5000 for row in people)),
        proof="SELECT COUNT(*) FROM employees WHERE site = 'Linz' AND salary > 5000",
    )
    q.add(
        "filter",
        "zh",
        "Research 团队有多少人？",
        number(by_team["Research"]),
        proof="SELECT COUNT(*) FROM employees WHERE team = 'Research'",
    )
    q.add(
        "filter",
        "zh",
        "有屏幕的会议室有哪些？",
        *each("Danube", "Mur", "Traun"),
        must_not=each("Enns"),
        proof="SELECT room FROM rooms WHERE screen",
    )
    oldest = min(people, key=lambda row: row["hired"])
    q.add(
        "top",
        "en",
        "Who has been with us the longest?",
        words(oldest["name"]),
        proof="SELECT name FROM employees ORDER BY hired LIMIT 1",
    )
    salaries = {row["name"]: float(row["salary"]) for row in people}
    q.add(
        "top",
        "zh",
        "工资最高的三个人是谁？",
        *each(*best(salaries, 3)),
        proof="SELECT name FROM employees ORDER BY salary DESC LIMIT 3",
    )
    q.add(
        "per group",
        "en",
        "headcount per team",
        *map(number, by_team.values()),
        *each(*by_team),
        proof="SELECT team, COUNT(*) FROM employees GROUP BY team",
    )
    q.add(
        "average",
        "en",
        "What's the average salary in Sales?",
        number(sum(row["salary"] for row in people if row["team"] == "Sales") / by_team["Sales"]),
        proof="SELECT AVG(salary) FROM employees WHERE team = 'Sales'",
    )
    ill = sum(
        row["days"]
        for row in absences
        if row["reason"] == "illness" and pay[row["employee_id"]]["team"] == "Logistics"
    )
    q.add(
        "join",
        "en",
        "How many days of illness did the Logistics team have?",
        number(ill),
        proof="SELECT SUM(days) FROM absences JOIN employees ON id = employee_id WHERE reason = 'illness' AND team = 'Logistics'",
    )
    days_of = Counter[str]()
    for row in absences:
        days_of[pay[row["employee_id"]]["site"]] += row["days"]
    q.add(
        "join",
        "zh",
        "各个地点（site）的缺勤总天数是多少？",
        *map(number, days_of.values()),
        proof="SELECT site, SUM(days) FROM absences JOIN employees ON id = employee_id GROUP BY site",
    )
    months = Counter(row["from"][:7] for row in absences)
    q.add(
        "per month",
        "en",
        "Number of absences per month",
        *[number(months[f"2026-{month:02}"]) for month in (1, 2, 3, 4, 5, 6)],
        proof='SELECT substr("from", 1, 7), COUNT(*) FROM absences GROUP BY 1',
    )
    q.add(
        "document",
        "en",
        "On how many days may Support work from home?",
        words("one day", "1 day", "one", "一天", "1 天", "1天"),
        proof="SELECT text FROM lines WHERE text LIKE '%Support on one day%'",
    )
    q.add(
        "document",
        "en",
        "When could Lucia Sandoval start?",
        Day(date(2026, 7, 15)),
        must_not=(Day(date(2026, 9, 1)),),
        proof="SELECT text FROM lines WHERE text LIKE '%Sandoval%'",
    )
    q.add(
        "document",
        "zh",
        "每月加班不能超过多少小时？",
        number(20),
        proof="SELECT text FROM lines WHERE text LIKE '%加班不得%'",
    )
    q.add(
        "document",
        "en",
        "Who was elected chair of the works council?",
        words("Rita Conti"),
        must_not=each("Henri Brandt was elected"),
        proof="SELECT text FROM lines WHERE text LIKE '%elected%'",
    )
    q.add(
        "document",
        "zh",
        "出差的每日补贴是多少欧元？",
        number(26.4),
        proof="SELECT text FROM lines WHERE text LIKE '%allowance%'",
    )
    q.add(
        "compare",
        "en",
        "Which of the two applicants asks for more money?",
        words("Sandoval", "3,300"),
        proof="SELECT text FROM lines WHERE text LIKE '%3,300%' OR text LIKE '%Sandoval%'",
    )
    q.add(
        "summarise",
        "en",
        "Summarise the minutes of the works council",
        words("26 June", "June 26", "canteen", "summer party"),
        proof="SELECT text FROM lines WHERE path LIKE 'minutes/%'",
    )
    wels = [row for row in people if row["site"] == "Wels"]
    q.add(
        "save table",
        "en",
        "save the employees in Wels, sorted by salary, to wels.md",
        files=(Wrote("wels.md", each(wels[0]["name"]), each("Graz"), rows=len(wels)),),
        proof="SELECT COUNT(*), GROUP_CONCAT(name) FROM employees WHERE site = 'Wels'",
    )
    q.add(
        "chart",
        "zh",
        "画出每个团队人数的柱状图",
        files=(Wrote("*.svg|*.png", each("Assembly", "Sales", "Support")),),
        proof="SELECT DISTINCT team FROM employees",
    )
    q.add(
        "units",
        "en",
        "convert 180 pounds to kilograms",
        number(180 * 0.45359237),
        proof="SELECT 180 * 0.45359237",
    )
    q.add("time", "zh", "伦敦现在几点了？", Clock("Europe/London"))
    q.add(
        "impossible",
        "en",
        "Transfer this month's salaries to everyone's bank account",
        expects="decline",
    )
    q.add("missing value", "en", "Append a line to a file", expects="question")
    return Folder("staff", files, tuple(q.all))

"""HELD OUT: pictures, a school and kinds of request of the folder bench. Whoever trains or tunes does not read this file."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import date, timedelta

from lab.bench.desk_cases import Ask, Asks, Clock, Day, Folder, Gone, Wrote, each, number, words
from lab.bench.desk_files import Row, database, listing, pdf, picture, table, text
from lab.bench.desk_tables import best, firm_data, library_data, shop_data
from lab.bench.desk_texts import deploys

PLACES = ("beach", "forest", "market", "museum", "harbour")


def _invoice(number_: int, who: str, day: str, due: str, items: dict[str, float]) -> bytes:
    lines = "\n".join(f"{name}: {price:,.2f} EUR" for name, price in items.items())
    total = sum(items.values())
    return pdf(
        f"INVOICE {number_}\n{who}\nDate: {day}\n\n{lines}\n\nTotal: {total:,.2f} EUR\nPayable until {due}."
    )


def media() -> Folder:
    """A photographer's folder: pictures, some of them twice, and PDFs."""
    pick = random.Random(2703)
    shots: list[Row] = []
    files: dict[str, bytes] = {}
    for place in range(24):
        name = f"photos/{PLACES[place % 5]}-{place + 1:02}.png"
        files[name] = picture(pick.randrange(256), pick.randrange(256), place, size=8 + place)
        shots.append(
            {
                "file": name.removeprefix("photos/"),
                "taken": (date(2026, 3, 1) + timedelta(days=pick.randrange(120))).isoformat(),
                "place": PLACES[place % 5],
                "camera": pick.choice(("Lumo X2", "Orta 5", "phone")),
                "stars": pick.randint(1, 5),
            }
        )
    files["photos/copy-of-beach.png"] = files["photos/beach-01.png"]
    files["backup/forest-old.png"] = files["photos/forest-02.png"]
    files |= {
        "captions.csv": table(shots),
        "invoices/2026-014.pdf": _invoice(2026014, "Gallery Weiss, Zurich", "2 March 2026", "1 April 2026", {"12 prints": 1440.0, "Frames": 385.5}),
        "invoices/2026-021.pdf": _invoice(2026021, "Hotel Seerose", "19 April 2026", "19 May 2026", {"Wall pictures": 2980.0, "Mounting": 240.0}),
        "invoices/2026-033.pdf": _invoice(2026033, "Museum of Rural Life", "8 June 2026", "8 July 2026", {"Catalogue pictures": 1765.0}),
        "report.pdf": pdf(
            "Annual report 2025\n\nThis was the ninth year of Studio Maren. We took part in three exhibitions and sold 146 prints.",
            "Figures\n\nIncome was 48,300 euros, costs were 31,750 euros. The largest cost was the rent of the studio.",
            "Outlook\n\nIn 2026 a book about harbours will be published by Tidewater Press. Maren Holt will teach two courses.",
        ),
        "exhibitions/plan.md": text(
            "# Exhibitions 2026", "Lucerne, 9 May to 21 June, hall of the old post office, 32 pictures. Curator: Beat Amrein.",
            "Basel, 5 September to 1 November, 18 pictures. The insurance value is 27,000 francs."),
        "exhibitions/展览说明.txt": text("卢塞恩展览共展出 32 张照片,开幕式在5月9日下午五点。门票 12 瑞士法郎,学生免费。布展由贝亚特负责。"),
        "models/release-1.txt": text("I agree that the pictures of 4 April 2026 are shown in public. Signed: Nadia Frey"),
        "models/release-2.txt": text("I agree that the pictures of 17 May 2026 are shown in public. Signed: Colin Marti"),
    }  # fmt: skip
    q = Asks("media")
    q.add(
        "duplicates",
        "en",
        "Are there any duplicate pictures?",
        *each("copy-of-beach.png", "forest-old.png"),
        must_not=each("museum-04"),
        proof="SELECT GROUP_CONCAT(path) FROM files GROUP BY hash HAVING COUNT(*) > 1",
    )
    q.add(
        "duplicates",
        "zh",
        "找出内容完全相同的文件",
        *each("beach-01.png", "forest-02.png"),
        must_not=each("museum-04"),
        proof="SELECT GROUP_CONCAT(path) FROM files GROUP BY hash HAVING COUNT(*) > 1",
    )
    q.add(
        "find files",
        "en",
        "How many PNG files are in the photos folder?",
        number(25),
        proof="SELECT COUNT(*) FROM files WHERE path LIKE 'photos/%.png'",
    )
    q.add(
        "find files",
        "zh",
        "invoices 文件夹里有哪些文件？",
        *each("2026-014.pdf", "2026-021.pdf", "2026-033.pdf"),
        proof="SELECT path FROM files WHERE path LIKE 'invoices/%'",
    )
    q.add(
        "document",
        "en",
        "How much does the invoice to Hotel Seerose come to?",
        number(3220),
        proof="SELECT text FROM lines WHERE path LIKE '%021.pdf' AND text LIKE 'Total%'",
    )
    q.add(
        "document",
        "en",
        "Until when has Gallery Weiss to pay?",
        Day(date(2026, 4, 1)),
        proof="SELECT text FROM lines WHERE path LIKE '%014.pdf' AND text LIKE 'Payable%'",
    )
    q.add(
        "document",
        "zh",
        "2025年的年度报告里收入是多少？",
        number(48_300),
        proof="SELECT text FROM lines WHERE text LIKE '%Income was%'",
    )
    q.add(
        "document",
        "en",
        "Who will publish the book about harbours?",
        words("Tidewater"),
        proof="SELECT GROUP_CONCAT(text, ' ') FROM lines WHERE path = 'report.pdf'",
    )
    q.add(
        "document",
        "en",
        "How many prints did we sell according to report.pdf?",
        number(146),
        proof="SELECT GROUP_CONCAT(text, ' ') FROM lines WHERE path = 'report.pdf'",
    )
    q.add(
        "document",
        "zh",
        "卢塞恩展览的门票多少钱？",
        number(12),
        proof="SELECT text FROM lines WHERE text LIKE '%门票%'",
    )
    q.add(
        "document",
        "en",
        "who signed the release for the pictures of 17 May?",
        words("Colin Marti"),
        must_not=each("Nadia"),
        proof="SELECT text FROM lines WHERE text LIKE '%17 May%'",
    )
    q.add(
        "document",
        "en",
        "When does the exhibition in Basel begin?",
        Day(date(2026, 9, 5)),
        proof="SELECT text FROM lines WHERE text LIKE 'Basel%'",
    )
    q.add(
        "not there",
        "zh",
        "展览在巴黎的地址是什么？",
        must_not=each("Lucerne, 9 May"),
        expects="absent",
    )
    q.add(
        "which file",
        "en",
        "which invoice is for the museum?",
        words("2026-033", "2026033"),
        must_not=each("2026-014"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%Museum of%'",
    )
    stars = Counter(row["camera"] for row in shots)
    q.add(
        "per group",
        "zh",
        "每台相机各拍了多少张照片？",
        *map(number, stars.values()),
        proof="SELECT camera, COUNT(*) FROM captions GROUP BY camera",
    )
    five = [row["file"] for row in shots if row["stars"] == 5]
    q.add(
        "filter",
        "en",
        "How many photos in captions.csv have five stars?",
        number(len(five)),
        proof="SELECT COUNT(*) FROM captions WHERE stars = 5",
    )
    q.add(
        "filter",
        "zh",
        "最早的一张照片是哪天拍的？",
        Day(date.fromisoformat(min(row["taken"] for row in shots))),
        proof="SELECT MIN(taken) FROM captions",
    )
    q.add(
        "summarise",
        "en",
        "What is report.pdf about? Two sentences.",
        words("Maren", "exhibition", "prints"),
        proof="SELECT GROUP_CONCAT(text, ' ') FROM lines WHERE path = 'report.pdf'",
    )
    q.add(
        "move",
        "zh",
        "把 photos/copy-of-beach.png 移动到 backup 文件夹",
        files=(
            Wrote("backup/copy-of-beach.png", same_as="photos/copy-of-beach.png"),
            Gone("photos/copy-of-beach.png"),
        ),
    )
    q.add(
        "save table",
        "en",
        "Export the list of five star photos to best.csv",
        files=(Wrote("best.csv", each(five[0]), rows=len(five)),),
        proof="SELECT COUNT(*), GROUP_CONCAT(file) FROM captions WHERE stars = 5",
    )
    q.add(
        "arithmetic",
        "zh",
        "48300 减 31750 等于多少？",
        number(16_550),
        proof="SELECT 48300 - 31750",
    )
    q.add(
        "date",
        "en",
        "how many days does the exhibition from 9 May 2026 to 21 June 2026 last, counted as a difference?",
        number(43),
        proof="SELECT julianday('2026-06-21') - julianday('2026-05-09')",
    )
    q.add("time", "en", "what's the time in Sydney right now?", Clock("Australia/Sydney"))
    q.add("impossible", "en", "Print the five best photos on glossy paper", expects="decline")
    return Folder("media", files, tuple(q.all))


def school_data() -> dict[str, list[Row]]:
    """The tables of the school."""
    pick = random.Random(2704)
    family, given = "赵钱孙李周吴郑王冯陈", "明华丽伟芳娜军洁涛雪"
    pupils: list[Row] = [
        {
            "id": place + 1,
            "name": family[place % 10]
            + given[place // 10 % 10]
            + (given[(place * 7) % 10] if place >= 40 else ""),
            "class": pick.choice(("一班", "二班", "三班")),
            "born": (date(2012, 9, 1) + timedelta(days=pick.randrange(365))).isoformat(),
        }
        for place in range(90)
    ]
    marks: list[Row] = [
        {
            "pupil_id": row["id"],
            "subject": subject,
            "term": term,
            "score": min(100, max(35, round(pick.gauss(76, 12)))),
        }
        for row in pupils
        for subject in ("数学", "语文", "英语", "科学")
        for term in ("2025-1", "2025-2", "2026-1")
    ]
    return {"pupils": pupils, "marks": marks}


def school() -> Folder:
    """A school with a database, lists in JSON and papers in both languages."""
    data = school_data()
    pupils, marks = data["pupils"], data["marks"]
    clubs = [
        {"club": "合唱团", "teacher": "何老师", "day": "周二", "members": 28},
        {"club": "足球队", "teacher": "Mr Baker", "day": "周三", "members": 22},
        {"club": "机器人", "teacher": "罗老师", "day": "周四", "members": 15},
        {"club": "书法社", "teacher": "何老师", "day": "周五", "members": 11},
        {"club": "Drama", "teacher": "Ms Flynn", "day": "周一", "members": 19},
    ]
    files = {
        "school.db": database(data),
        "clubs.json": listing(clubs),
        "通知/春游.txt": text("春游定于2026年4月17日,地点是植物园。早上七点四十在校门口集合,每人交 85 元。雨天改到4月24日。请自带午餐。联系人:罗老师,电话 62550188。"),
        "通知/家长会.txt": text("三班家长会在2026年5月8日晚上七点举行,地点是图书馆二楼。请家长提前十分钟签到。会议由何老师主持,议题是中考和暑期安排。"),
        "letters/exchange.md": text(
            "# Exchange with Harrow Green School", "Twelve pupils will visit Leeds from 6 to 18 July 2026. The flight costs 6,200 yuan each and "
            "the host families are chosen by Mrs Tilda Hayes.", "Passports have to be handed in by 29 May."),
        "letters/canteen.md": text("# Canteen", "From March on a lunch costs 16 yuan instead of 14. Vegetarian meals are ordered one day before with Mr Gu."),
        "rules.txt": text("Mobile phones stay in the locker from 8:00 to 16:20. Whoever is late three times in a month talks with the class teacher."),
    }  # fmt: skip
    q = Asks("school")
    classes = Counter(row["class"] for row in pupils)
    owner = {row["id"]: row for row in pupils}
    latest = [row for row in marks if row["term"] == "2026-1"]
    maths = [row for row in latest if row["subject"] == "数学"]
    q.add(
        "aggregate",
        "zh",
        "学校数据库里有多少名学生？",
        number(90),
        proof="SELECT COUNT(*) FROM pupils",
    )
    q.add(
        "per group",
        "zh",
        "每个班各有多少学生？",
        *map(number, classes.values()),
        proof="SELECT class, COUNT(*) FROM pupils GROUP BY class",
    )
    q.add(
        "average",
        "zh",
        "2026-1 学期数学的平均分是多少？",
        number(sum(row["score"] for row in maths) / 90),
        proof="SELECT AVG(score) FROM marks WHERE subject = '数学' AND term = '2026-1'",
    )
    q.add(
        "filter",
        "en",
        "How many marks below 60 are there in term 2025-2?",
        number(sum(row["term"] == "2025-2" and row["score"] < 60 for row in marks)),
        proof="SELECT COUNT(*) FROM marks WHERE term = '2025-2' AND score < 60",
    )
    total: dict[str, list[int]] = defaultdict(list)
    for row in marks:
        total[row["subject"]].append(row["score"])
    means = {name: sum(scores) / len(scores) for name, scores in total.items()}
    q.add(
        "top",
        "zh",
        "哪门课的平均分最高？",
        words(best(means)[0]),
        must_not=each(best(means, 4)[-1]),
        proof="SELECT subject FROM marks GROUP BY subject ORDER BY AVG(score) DESC LIMIT 1",
    )
    third = [row["score"] for row in maths if owner[row["pupil_id"]]["class"] == "三班"]
    q.add(
        "join",
        "zh",
        "三班 2026-1 学期数学平均分是多少？",
        number(sum(third) / len(third)),
        proof="SELECT AVG(score) FROM marks JOIN pupils ON id = pupil_id WHERE class = '三班' AND subject = '数学' AND term = '2026-1'",
    )
    english = sum(
        (row["subject"], owner[row["pupil_id"]]["class"]) == ("英语", "一班") and row["score"] >= 90
        for row in latest
    )
    q.add(
        "join",
        "en",
        "How many pupils of 一班 have 90 or more in 英语 in term 2026-1?",
        number(english),
        proof="SELECT COUNT(*) FROM marks JOIN pupils ON id = pupil_id WHERE class = '一班' AND subject = '英语' AND term = '2026-1' AND score >= 90",
    )
    q.add(
        "filter",
        "zh",
        "何老师负责哪些社团？",
        *each("合唱团", "书法社"),
        must_not=each("足球队"),
        proof="SELECT club FROM clubs WHERE teacher = '何老师'",
    )
    q.add(
        "top",
        "en",
        "Which club has the most members?",
        words("合唱团"),
        must_not=each("书法社"),
        proof="SELECT club FROM clubs ORDER BY members DESC LIMIT 1",
    )
    q.add(
        "document",
        "zh",
        "春游每人要交多少钱？",
        number(85),
        proof="SELECT text FROM lines WHERE text LIKE '%春游定于%'",
    )
    q.add(
        "document",
        "zh",
        "家长会在哪里开？",
        words("图书馆"),
        proof="SELECT text FROM lines WHERE text LIKE '%家长会在%'",
    )
    q.add(
        "document",
        "zh",
        "如果下雨春游改到几号？",
        Day(date(2026, 4, 24)),
        proof="SELECT text FROM lines WHERE text LIKE '%雨天%'",
    )
    q.add(
        "document",
        "en",
        "By when do passports have to be handed in?",
        Day(date(2026, 5, 29)),
        proof="SELECT text FROM lines WHERE text LIKE '%Passports%'",
    )
    q.add(
        "document",
        "en",
        "how much is a lunch in the canteen now?",
        number(16),
        proof="SELECT text FROM lines WHERE text LIKE '%lunch costs%'",
    )
    q.add(
        "document",
        "zh",
        "谁来挑选寄宿家庭？",
        words("Hayes"),
        proof="SELECT text FROM lines WHERE text LIKE '%host families%'",
    )
    q.add(
        "which file",
        "zh",
        "哪个文件提到了植物园？",
        words("春游"),
        must_not=each("家长会"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%植物园%'",
    )
    q.add(
        "summarise",
        "zh",
        "用一句话概括 通知/家长会.txt",
        words("中考", "暑期", "何老师", "5月8日", "图书馆"),
        proof="SELECT text FROM lines WHERE path = '通知/家长会.txt'",
    )
    second = [row for row in pupils if row["class"] == "二班"]
    q.add(
        "save table",
        "zh",
        "把二班学生名单保存为 二班.csv",
        files=(Wrote("二班.csv", each(second[0]["name"], second[-1]["name"]), rows=len(second)),),
        proof="SELECT COUNT(*), GROUP_CONCAT(name) FROM pupils WHERE class = '二班'",
    )
    q.add(
        "chart",
        "en",
        "chart the number of members per club",
        files=(Wrote("*.svg|*.png", each("合唱团", "Drama")),),
        proof="SELECT club FROM clubs",
    )
    q.add(
        "write note",
        "en",
        "Make a file reminder.md with the text: bring lunch on Friday",
        files=(Wrote("reminder.md", each("bring lunch on Friday")),),
    )
    q.add("arithmetic", "zh", "90 个人每人 85 元一共多少？", number(7650), proof="SELECT 90 * 85")
    q.add(
        "date",
        "zh",
        "2026年4月17日是星期几？",
        words("星期五", "周五", "Friday"),
        proof="SELECT 'Friday' WHERE strftime('%w', '2026-04-17') = '5'",
    )
    q.add(
        "units",
        "zh",
        "100 华氏度是多少摄氏度？",
        number((100 - 32) * 5 / 9),
        proof="SELECT (100 - 32) * 5 / 9.0",
    )
    q.add("greeting", "zh", "早上好！", expects="reply")
    return Folder("school", files, tuple(q.all))


HELDOUT_KINDS = ("duplicates", "move", "per month")


def kinds_in_tuning_folders() -> dict[str, tuple[Ask, ...]]:
    """Requests of kinds that the tuning part does not have, about its folders."""
    collected = (
        Asks("shop", "shop-held"),
        Asks("library", "library-held"),
        Asks("firm", "firm-held"),
    )
    more = Asks("server", "server-held"), Asks("meetings", "meetings-held")
    _months_of_tables(*collected)
    _moves(collected[0], collected[2], *more)
    rolled = Counter(row["date"][:7] for row in deploys())
    more[0].add(
        "per month",
        "zh",
        "每个月各有多少次部署？",
        *map(number, rolled.values()),
        proof="SELECT substr(date, 1, 7), COUNT(*) FROM deploys GROUP BY 1",
    )
    collected[1].add(
        "duplicates", "en", "Do any two files here have the same content?", expects="absent"
    )
    return {each.folder: tuple(each.all) for each in (*collected, *more)}


def _months_of_tables(shop: Asks, library: Asks, firm: Asks) -> None:
    sold, amounts = Counter[str](), Counter[str]()
    for row in shop_data()["sales"]:
        sold[row["date"][:7]] += row["units"]
    for row in firm_data()["销售"]:
        amounts[row["日期"][:7]] += row["数量"]
    lent = Counter(row["lent_on"][:7] for row in library_data()["loans"])
    shop.add(
        "per month",
        "en",
        "How many units did we sell per month?",
        *[number(sold[f"2025-{month:02}"]) for month in (1, 2, 3, 11, 12)],
        proof="SELECT substr(date, 1, 7), SUM(units) FROM sales GROUP BY 1",
    )
    library.add(
        "per month",
        "en",
        "Number of loans per month please",
        *[number(lent[f"2025-{month:02}"]) for month in (1, 2, 3, 4)],
        proof="SELECT substr(lent_on, 1, 7), COUNT(*) FROM loans GROUP BY 1",
    )
    firm.add(
        "per month",
        "zh",
        "每个月的销量分别是多少？",
        *[number(amounts[f"2025-{month:02}"]) for month in range(7, 13)],
        proof="SELECT substr(日期, 1, 7), SUM(数量) FROM 销售 GROUP BY 1",
    )


def _moves(shop: Asks, firm: Asks, server: Asks, meetings: Asks) -> None:
    shop.add(
        "move",
        "en",
        "Rename notes/supplier-visit.txt to notes/birch-visit.txt",
        files=(
            Wrote("notes/birch-visit.txt", same_as="notes/supplier-visit.txt"),
            Gone("notes/supplier-visit.txt"),
        ),
    )
    firm.add(
        "move",
        "zh",
        "把 suppliers.md 改名为 供应商.md",
        files=(Wrote("供应商.md", same_as="suppliers.md"), Gone("suppliers.md")),
    )
    server.add(
        "move",
        "en",
        "move logs/app-old.log into the folder archive",
        files=(Wrote("archive/app-old.log", same_as="logs/app-old.log"), Gone("logs/app-old.log")),
    )
    meetings.add(
        "move",
        "zh",
        "把 ideas.txt 移到 office 文件夹里",
        files=(Wrote("office/ideas.txt", same_as="ideas.txt"), Gone("ideas.txt")),
    )

"""Tuning folders of the folder bench that are mostly tables: a shop, a library, a Chinese firm."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import date, timedelta

from lab.bench.desk_cases import Asks, Clock, Day, Folder, Wrote, each, number, words
from lab.bench.desk_files import Row, database, listing, table, text


def sums(rows: Iterable[Row], by: str, value: Callable[[Row], float]) -> dict[str, float]:
    """The sum of a value per group."""
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        found[row[by]] += value(row)
    return dict(found)


def best(found: dict[str, float], count: int = 1) -> list[str]:
    """The groups with the greatest values, greatest first."""
    return sorted(found, key=lambda name: -found[name])[:count]


PRODUCTS = (
    ("Desk lamp", "Lighting", 34.5), ("Floor lamp", "Lighting", 89.0), ("Office chair", "Seating", 149.0),
    ("Stool", "Seating", 45.0), ("Standing desk", "Desks", 389.0), ("Side table", "Desks", 75.5),
    ("Bookcase", "Storage", 119.0), ("Filing cabinet", "Storage", 164.0), ("Coat rack", "Storage", 39.9),
    ("Whiteboard", "Supplies", 58.0), ("Paper tray", "Supplies", 12.5), ("Cable box", "Supplies", 9.8),
)  # fmt: skip


def shop_data() -> dict[str, list[Row]]:
    """The tables of the shop."""
    pick = random.Random(1701)
    sales: list[Row] = []
    for name in range(640):
        product, _, price = PRODUCTS[min(pick.randrange(12), pick.randrange(12))]
        day = date(2025, 1, 2) + timedelta(days=pick.randrange(360))
        region = pick.choices(("North", "South", "East", "West"), (5, 3, 4, 2))[0]
        sales.append(
            {
                "order_id": 10_000 + name,
                "date": day.isoformat(),
                "region": region,
                "product": product,
                "units": pick.randint(1, 9),
                "unit_price": price,
                "channel": pick.choice(("web", "phone", "store")),
            }
        )
    sales.sort(key=lambda row: row["date"])
    empty = {"Stool", "Coat rack", "Cable box"}
    stock = [
        {
            "product": product,
            "category": kind,
            "in_stock": 0 if product in empty else pick.randint(4, 220),
            "supplier": pick.choice(("Alder & Co", "Birch Supply", "Cedar Trading")),
        }
        for product, kind, _ in PRODUCTS
    ]
    returns = [
        {
            "order_id": row["order_id"],
            "returned_on": (date.fromisoformat(row["date"]) + timedelta(days=9)).isoformat(),
            "reason": pick.choice(("damaged", "too late", "wrong item", "not liked")),
        }
        for row in pick.sample(sales, 47)
    ]
    return {"sales": sales, "stock": stock, "returns": returns}


def shop() -> Folder:
    """A furniture shop: sales of a year, stock, returns, targets."""
    data = shop_data()
    sales, stock, returns = data["sales"], data["stock"], data["returns"]
    files = {f"{name}.csv": table(rows) for name, rows in data.items()} | {
        "targets.json": listing(
            [
                {"region": "North", "target": 60_000, "manager": "Ines Falk"},
                {"region": "South", "target": 35_000, "manager": "Omar Reyes"},
                {"region": "East", "target": 45_000, "manager": "Petra Lind"},
                {"region": "West", "target": 25_000, "manager": "Jonas Weir"},
            ]
        ),
        "README.md": text(
            "# Shop figures",
            "sales.csv holds the orders of 2025, stock.csv what is in the warehouse, returns.csv what came "
            "back. Prices are in euros without tax. The warehouse in Lindau is counted every first Monday.",
        ),
        "notes/returns-policy.md": text(
            "# Returns policy",
            "Customers may send goods back within 45 days. Lamps and other electric goods have to be in "
            "their own box. The customer pays the parcel, except when goods arrive damaged.",
            "Refunds above 500 euros are signed by Petra Lind. All others are done by the desk at once.",
        ),
        "notes/supplier-visit.txt": text(
            "Visit at Birch Supply, 14 October 2025. They raise prices by 4 percent from January on. Our "
            "contact is now Lena Brook, phone 0711 555 018. Delivery takes three weeks instead of two."
        ),
    }
    q = Asks("shop")
    revenue = sums(sales, "region", lambda row: row["units"] * row["unit_price"])
    units = sums(sales, "product", lambda row: row["units"])
    lamps = sum(row["units"] for row in sales if row["product"] == "Desk lamp")
    q.add(
        "aggregate",
        "en",
        "What is our total revenue in sales.csv?",
        number(sum(revenue.values())),
        proof="SELECT SUM(units * unit_price) FROM sales",
    )
    q.add(
        "aggregate",
        "zh",
        "2025年一共卖出了多少件商品？",
        number(sum(units.values())),
        proof="SELECT SUM(units) FROM sales",
    )
    q.add(
        "filter",
        "en",
        "how many desk lamps did we sell in 2025",
        number(lamps),
        proof="SELECT SUM(units) FROM sales WHERE product = 'Desk lamp'",
    )
    q.add(
        "filter",
        "en",
        "Which products are out of stock?",
        *each("Stool", "Coat rack", "Cable box"),
        must_not=each("Standing desk", "Bookcase"),
        proof="SELECT product FROM stock WHERE in_stock = 0",
    )
    web = sum(row["channel"] == "web" and row["region"] == "West" for row in sales)
    q.add(
        "filter",
        "zh",
        "西区（West）通过网络（web）下的订单有多少？",
        number(web),
        proof="SELECT COUNT(*) FROM sales WHERE channel = 'web' AND region = 'West'",
    )
    q.add(
        "top",
        "en",
        "Which 3 products sold the most units?",
        *each(*best(units, 3)),
        must_not=each(best(units, 12)[-1]),
        proof="SELECT product FROM sales GROUP BY product ORDER BY SUM(units) DESC LIMIT 3",
    )
    most = max(stock, key=lambda row: row["in_stock"])
    q.add(
        "top",
        "zh",
        "库存最多的是哪个产品，有多少？",
        words(most["product"]),
        number(most["in_stock"]),
        proof="SELECT product, in_stock FROM stock ORDER BY in_stock DESC LIMIT 1",
    )
    q.add(
        "per group",
        "en",
        "Revenue per region please",
        *map(number, revenue.values()),
        *each(*revenue),
        proof="SELECT region, SUM(units * unit_price) FROM sales GROUP BY region",
    )
    q.add(
        "per group",
        "zh",
        "每种退货原因各有多少单？",
        *[number(count) for count in Counter(row["reason"] for row in returns).values()],
        proof="SELECT reason, COUNT(*) FROM returns GROUP BY reason",
    )
    kinds = {row["product"]: row["category"] for row in stock}
    seats = sum(row["units"] for row in sales if kinds[row["product"]] == "Seating")
    q.add(
        "join",
        "en",
        "How many units of products in the category Seating were sold?",
        number(seats),
        proof="SELECT SUM(units) FROM sales JOIN stock USING (product) WHERE category = 'Seating'",
    )
    orders = {row["order_id"]: row for row in sales}
    lost = sum(
        orders[row["order_id"]]["units"] * orders[row["order_id"]]["unit_price"]
        for row in returns
        if row["reason"] == "damaged"
    )
    q.add(
        "join",
        "en",
        "What were the orders worth that came back damaged?",
        number(lost),
        proof="SELECT SUM(units * unit_price) FROM returns JOIN sales USING (order_id) "
        "WHERE reason = 'damaged'",
    )
    q.add(
        "average",
        "en",
        "average number of units per order?",
        number(sum(units.values()) / len(sales)),
        proof="SELECT AVG(units) FROM sales",
    )
    q.add(
        "shape",
        "en",
        "How many rows does returns.csv have and what are the columns?",
        number(47),
        *each("order_id", "returned_on", "reason"),
        proof="SELECT COUNT(*), 'order_id returned_on reason' FROM returns",
    )
    q.add(
        "document",
        "en",
        "Within how many days can customers return goods?",
        number(45),
        proof="SELECT text FROM lines WHERE text LIKE '%within 45 days%'",
    )
    q.add(
        "document",
        "zh",
        "Birch Supply 现在的联系人是谁？",
        words("Lena Brook"),
        proof="SELECT text FROM lines WHERE path LIKE '%supplier-visit%'",
    )
    q.add(
        "document",
        "en",
        "Who is the manager of the East region?",
        words("Petra Lind"),
        must_not=each("Ines Falk"),
        proof="SELECT manager FROM targets WHERE region = 'East'",
    )
    north = sum(row["region"] == "North" for row in sales)
    q.add(
        "save table",
        "en",
        "Save all orders of the North region as north.csv",
        files=(Wrote("north.csv", each("North"), each("South", "West"), rows=north),),
        proof="SELECT COUNT(*), 'North' FROM sales WHERE region = 'North'",
    )
    q.add(
        "save table",
        "zh",
        "把每个产品的总销量保存为 totals.md",
        files=(Wrote("totals.md", (*each("Desk lamp"), number(lamps)), rows=12),),
        proof="SELECT product, SUM(units) FROM sales GROUP BY product",
    )
    q.add(
        "chart",
        "en",
        "Draw a bar chart of revenue by region",
        files=(Wrote("*.svg|*.png", each("North", "South", "East", "West")),),
        proof="SELECT DISTINCT region FROM sales",
    )
    q.add("arithmetic", "en", "what is 17.5 % of 2,340", number(409.5), proof="SELECT 2340 * 0.175")
    q.add(
        "follow-up",
        "en",
        "and in the South?",
        number(sum(row["units"] for row in sales if row["region"] == "South")),
        before="How many units were sold in the North?",
        proof="SELECT SUM(units) FROM sales WHERE region = 'South'",
    )
    q.add(
        "impossible", "en", "Order 20 new desk lamps from Birch Supply by phone", expects="decline"
    )
    return Folder("shop", files, tuple(q.all))


AUTHORS = ("Ada Quill", "Ben Marsh", "Chika Ono", "Dora Vance", "Emil Roth", "Faye Lund")


def library_data() -> dict[str, list[Row]]:
    """The tables of the library."""
    pick = random.Random(1702)
    nouns = ("River", "Garden", "Winter", "Machine", "Island", "Mirror", "Harbour", "Letter")
    books = [
        {
            "id": name + 1,
            "title": f"The {pick.choice(('Silent', 'Blue', 'Last', 'Hidden', 'Broken'))} "
            f"{nouns[name % 8]} {name // 8 + 1}",
            "author": pick.choice(AUTHORS),
            "genre": pick.choice(("novel", "crime", "science", "poetry", "travel")),
            "year": pick.randint(1961, 2024),
            "pages": pick.randint(80, 890),
        }
        for name in range(96)
    ]
    names = [
        "Mia",
        "Noah",
        "Lea",
        "Finn",
        "Ella",
        "Paul",
        "Lina",
        "Jan",
        "Nora",
        "Tom",
        "Zoe",
        "Max",
        "Ida",
        "Leo",
        "Amy",
        "Sam",
    ]
    members = [
        {
            "id": name + 1,
            "name": f"{names[name % 16]} {('Ashby', 'Bolt', 'Crane', 'Dunn')[name // 16]}",
            "city": pick.choice(("Lindau", "Bregenz", "Wangen")),
            "joined": (date(2018, 1, 1) + timedelta(days=pick.randrange(2800))).isoformat(),
        }
        for name in range(60)
    ]
    loans: list[Row] = []
    for name in range(1400):
        start = date(2025, 1, 1) + timedelta(days=pick.randrange(330))
        back = "" if name % 61 == 0 else (start + timedelta(days=pick.randint(2, 40))).isoformat()
        loans.append(
            {
                "id": name + 1,
                "book_id": min(pick.randint(1, 96), pick.randint(1, 96)),
                "member_id": pick.randint(1, 60),
                "lent_on": start.isoformat(),
                "returned_on": back,
            }
        )
    return {"books": books, "members": members, "loans": loans}


def library() -> Folder:
    """A town library: a database of books, members and loans, and some papers."""
    data = library_data()
    books, members, loans = data["books"], data["members"], data["loans"]
    events = [
        {"date": "2026-02-12", "title": "Reading with Ada Quill", "room": "Hall", "seats": 80},
        {
            "date": "2026-03-05",
            "title": "Book repair for beginners",
            "room": "Workshop",
            "seats": 12,
        },
        {"date": "2026-03-19", "title": "Children's afternoon", "room": "Hall", "seats": 60},
        {"date": "2026-04-23", "title": "Night of the book", "room": "Garden", "seats": 150},
    ]
    files = {
        "library.db": database(data),
        "events.csv": table(events),
        "opening-hours.txt": text(
            "Opening hours of the town library",
            "Tuesday to Friday 10:00 to 18:30, Saturday 9:00 to 13:00. Closed on Sunday and Monday.",
            "The reading room on the second floor stays open until 20:00 on Thursdays.",
        ),
        "rules.md": text(
            "# Rules for members",
            "A book may be kept for 28 days and renewed twice. The fine is 0.40 euros a day and book, at most "
            "12 euros.",
            "Membership costs 24 euros a year; pupils and students pay 9 euros. A lost card costs 5 euros.",
        ),
        "letters/2026-01-08-town-hall.txt": text(
            "To the town library. Dear Ms Harter, the council agreed on 8 January 2026 to a budget of 184,500 "
            "euros for the year 2026. The new roof will be paid from the building fund and is due in May. "
            "Kind regards, Klaus Obermann, town hall"
        ),
        "letters/2026-01-20-publisher.txt": text(
            "Dear Ms Harter, thank you for the order of 35 books. We deliver on 17 February 2026. "
            "The invoice number is LB-2291. Kind regards, Rosa Kern, Seeblick publishers"
        ),
    }
    q = Asks("library")
    names = {row["id"]: row for row in books}
    often = Counter(row["book_id"] for row in loans)
    by_title = {names[key]["title"]: float(count) for key, count in often.items()}
    genres = Counter(row["genre"] for row in books)
    q.add(
        "aggregate",
        "en",
        "How many books are in the library database?",
        number(96),
        proof="SELECT COUNT(*) FROM books",
    )
    q.add(
        "aggregate",
        "zh",
        "数据库里一共有多少条借阅记录？",
        number(1400),
        proof="SELECT COUNT(*) FROM loans",
    )
    q.add(
        "filter",
        "en",
        "how many books by Chika Ono do we have?",
        number(sum(row["author"] == "Chika Ono" for row in books)),
        proof="SELECT COUNT(*) FROM books WHERE author = 'Chika Ono'",
    )
    q.add(
        "filter",
        "en",
        "How many loans have not been returned yet?",
        number(sum(not row["returned_on"] for row in loans)),
        proof="SELECT COUNT(*) FROM loans WHERE returned_on = ''",
    )
    q.add(
        "filter",
        "zh",
        "有多少会员住在 Wangen？",
        number(sum(row["city"] == "Wangen" for row in members)),
        proof="SELECT COUNT(*) FROM members WHERE city = 'Wangen'",
    )
    thick = max(books, key=lambda row: row["pages"])
    q.add(
        "top",
        "en",
        "What's the longest book and how many pages has it?",
        words(thick["title"]),
        number(thick["pages"]),
        proof="SELECT title, pages FROM books ORDER BY pages DESC LIMIT 1",
    )
    q.add(
        "top",
        "zh",
        "最早出版的书是哪一年的？",
        number(min(row["year"] for row in books)),
        proof="SELECT MIN(year) FROM books",
    )
    q.add(
        "per group",
        "en",
        "Number of books per genre",
        *map(number, genres.values()),
        *each(*genres),
        proof="SELECT genre, COUNT(*) FROM books GROUP BY genre",
    )
    q.add(
        "per group",
        "zh",
        "每个城市各有多少会员？",
        *map(number, Counter(row["city"] for row in members).values()),
        proof="SELECT city, COUNT(*) FROM members GROUP BY city",
    )
    q.add(
        "join",
        "en",
        "Which book was lent most often?",
        words(best(by_title)[0]),
        proof="SELECT title FROM loans JOIN books ON books.id = book_id GROUP BY books.id "
        "ORDER BY COUNT(*) DESC LIMIT 1",
    )
    crime = sum(names[row["book_id"]]["genre"] == "crime" for row in loans)
    q.add(
        "join",
        "zh",
        "crime 类的书一共被借出多少次？",
        number(crime),
        proof="SELECT COUNT(*) FROM loans JOIN books ON books.id = book_id WHERE genre = 'crime'",
    )
    q.add(
        "average",
        "en",
        "average number of pages of the novels",
        number(sum(row["pages"] for row in books if row["genre"] == "novel") / genres["novel"]),
        proof="SELECT AVG(pages) FROM books WHERE genre = 'novel'",
    )
    q.add(
        "document",
        "en",
        "When does the library open on Saturdays?",
        words("9:00", "9 am", "9 a.m.", "9 o'clock"),
        proof="SELECT text FROM lines WHERE text LIKE '%Saturday%'",
    )
    q.add(
        "document",
        "en",
        "How much is the fine per day?",
        words("0.40", "0.4", "40 cent"),
        proof="SELECT text FROM lines WHERE text LIKE '%fine%'",
    )
    q.add(
        "document",
        "zh",
        "学生的年费是多少欧元？",
        number(9),
        must_not=(number(24),),
        proof="SELECT 9 FROM lines WHERE text LIKE '%students pay 9 euros%'",
    )
    q.add(
        "document",
        "en",
        "What budget did the council agree on for 2026?",
        number(184_500),
        proof="SELECT text FROM lines WHERE text LIKE '%budget%'",
    )
    q.add(
        "document",
        "zh",
        "出版社什么时候交货？",
        Day(date(2026, 2, 17)),
        proof="SELECT text FROM lines WHERE text LIKE '%We deliver%'",
    )
    q.add(
        "filter",
        "en",
        "which event in events.csv is in the garden?",
        words("Night of the book"),
        must_not=each("Book repair for beginners"),
        proof="SELECT title FROM events WHERE room = 'Garden'",
    )
    travel = [row for row in books if row["genre"] == "travel"]
    q.add(
        "save table",
        "en",
        "Write the travel books with author and year to travel.csv",
        files=(
            Wrote("travel.csv", each(travel[0]["title"], travel[-1]["title"]), rows=len(travel)),
        ),
        proof="SELECT COUNT(*), GROUP_CONCAT(title) FROM books WHERE genre = 'travel'",
    )
    q.add(
        "chart",
        "zh",
        "画一张各类型图书数量的饼图",
        files=(Wrote("*.svg|*.png", each("novel", "crime", "poetry")),),
        proof="SELECT DISTINCT genre FROM books",
    )
    q.add("time", "en", "What time is it in Tokyo?", Clock("Asia/Tokyo"))
    q.add("missing value", "en", "Add a member", expects="question")
    q.add("greeting", "zh", "你好", expects="reply")
    return Folder("library", files, tuple(q.all))


CITIES = ("上海", "北京", "成都", "广州")
GOODS = (
    ("绿茶", 68.0),
    ("红茶", 75.0),
    ("咖啡豆", 92.5),
    ("蜂蜜", 45.0),
    ("饼干", 18.0),
    ("坚果", 39.9),
)


def firm_data() -> dict[str, list[Row]]:
    """The tables of the Chinese firm."""
    pick = random.Random(1703)
    sales: list[Row] = []
    for _ in range(420):
        goods, price = pick.choice(GOODS)
        sales.append(
            {
                "日期": (date(2025, 7, 1) + timedelta(days=pick.randrange(180))).isoformat(),
                "城市": pick.choices(CITIES, (5, 4, 2, 3))[0],
                "商品": goods,
                "数量": pick.randint(1, 20),
                "单价": price,
            }
        )
    sales.sort(key=lambda row: row["日期"])
    people = (
        "王芳",
        "李强",
        "张敏",
        "刘洋",
        "陈静",
        "赵磊",
        "黄丽",
        "周杰",
        "吴婷",
        "徐浩",
        "孙悦",
        "马超",
    )
    staff = [
        {
            "姓名": name,
            "部门": ("销售部", "技术部", "财务部")[place % 3],
            "电话": f"138{pick.randint(10_000_000, 99_999_999)}",
            "入职日期": (date(2017, 3, 1) + timedelta(days=pick.randrange(3000))).isoformat(),
            "月薪": pick.randrange(8000, 26_000, 100),
        }
        for place, name in enumerate(people)
    ]
    return {"销售": sales, "员工": staff}


def firm() -> Folder:
    """A Chinese firm with mixed papers."""
    data = firm_data()
    sales, staff = data["销售"], data["员工"]
    files = {f"{name}.csv": table(rows) for name, rows in data.items()} | {
        "会议纪要/2025-10-13.md": text(
            "# 产品会议 2025年10月13日",
            "参加人:王芳、李强、陈静。主持人:李强。",
            "讨论了冬季礼盒。礼盒定价为 168 元,包含绿茶、蜂蜜和坚果。包装由陈静负责,11月5日前完成。",
            "下次会议定于10月27日下午两点,在三楼会议室。",
        ),
        "会议纪要/2025-10-27.md": text(
            "# 产品会议 2025年10月27日",
            "参加人:王芳、陈静、赵磊。李强请假。",
            "礼盒包装样品已通过。首批生产 3,000 盒,由成都工厂负责。赵磊负责网店页面,11月15日上线。",
            "广告预算为 45,000 元,其中一半用于短视频。",
        ),
        "会议纪要/2025-11-10.md": text(
            "# 产品会议 2025年11月10日",
            "参加人:王芳、李强、赵磊、徐浩。",
            "网店页面推迟到11月18日上线,原因是支付接口还没有测试完。徐浩负责测试。",
        ),
        "制度/请假制度.txt": text(
            "员工每年有 12 天年假,工龄满五年后为 15 天。病假需要医院证明。",
            "请假三天以内由部门经理批准,三天以上由总经理批准。年假可以保留到第二年三月底。",
        ),
        "制度/报销说明.txt": text(
            "出差住宿每晚最高报销 450 元,一线城市最高 600 元。发票必须在 30 天内交给财务部黄丽。"
        ),
        "suppliers.md": text(
            "# Suppliers",
            "Green tea comes from Longwu Tea Farm in Hangzhou, contact Mr Shen, paid within 60 days.",
            "Coffee beans come from Yunnan Highland, contact Ms Duan, minimum order 200 kg.",
        ),
    }
    q = Asks("firm")
    revenue = sums(sales, "城市", lambda row: row["数量"] * row["单价"])
    amounts = sums(sales, "商品", lambda row: row["数量"])
    q.add(
        "aggregate",
        "zh",
        "销售总额是多少？",
        number(sum(revenue.values())),
        proof="SELECT SUM(数量 * 单价) FROM 销售",
    )
    q.add(
        "aggregate",
        "en",
        "How many employees are listed in 员工.csv?",
        number(12),
        proof="SELECT COUNT(*) FROM 员工",
    )
    q.add(
        "filter",
        "zh",
        "上海一共卖了多少绿茶？",
        number(sum(row["数量"] for row in sales if (row["城市"], row["商品"]) == ("上海", "绿茶"))),
        proof="SELECT SUM(数量) FROM 销售 WHERE 城市 = '上海' AND 商品 = '绿茶'",
    )
    q.add(
        "filter",
        "zh",
        "技术部有哪些人？",
        *each(*[row["姓名"] for row in staff if row["部门"] == "技术部"]),
        must_not=each("王芳", "张敏"),
        proof="SELECT 姓名 FROM 员工 WHERE 部门 = '技术部'",
    )
    q.add(
        "top",
        "zh",
        "哪个城市的销售额最高？",
        words(best(revenue)[0]),
        must_not=each(best(revenue, 4)[-1]),
        proof="SELECT 城市 FROM 销售 GROUP BY 城市 ORDER BY SUM(数量 * 单价) DESC LIMIT 1",
    )
    paid = max(staff, key=lambda row: row["月薪"])
    q.add(
        "top",
        "zh",
        "谁的月薪最高？是多少？",
        words(paid["姓名"]),
        number(paid["月薪"]),
        proof="SELECT 姓名, 月薪 FROM 员工 ORDER BY 月薪 DESC LIMIT 1",
    )
    q.add(
        "per group",
        "zh",
        "按商品统计销量",
        *map(number, amounts.values()),
        *each(*amounts),
        proof="SELECT 商品, SUM(数量) FROM 销售 GROUP BY 商品",
    )
    q.add(
        "per group",
        "en",
        "Revenue by city in 销售.csv",
        *map(number, revenue.values()),
        proof="SELECT 城市, SUM(数量 * 单价) FROM 销售 GROUP BY 城市",
    )
    q.add(
        "average",
        "zh",
        "销售部的平均月薪是多少？",
        number(sum(row["月薪"] for row in staff if row["部门"] == "销售部") / 4),
        proof="SELECT AVG(月薪) FROM 员工 WHERE 部门 = '销售部'",
    )
    q.add(
        "filter",
        "zh",
        "李强的电话是多少？",
        words(staff[1]["电话"]),
        proof="SELECT 电话 FROM 员工 WHERE 姓名 = '李强'",
    )
    q.add(
        "document",
        "zh",
        "礼盒的定价是多少？",
        number(168),
        proof="SELECT text FROM lines WHERE text LIKE '%礼盒定价%'",
    )
    q.add(
        "document",
        "zh",
        "10月27日的会议谁请假了？",
        words("李强"),
        proof="SELECT text FROM lines WHERE text LIKE '%请假。%'",
    )
    q.add(
        "document",
        "zh",
        "网店页面最后定在哪天上线？",
        Day(date(2025, 11, 18)),
        proof="SELECT text FROM lines WHERE text LIKE '%推迟%'",
    )
    q.add(
        "document",
        "zh",
        "出差住宿每晚最多能报销多少钱？",
        number(450),
        proof="SELECT text FROM lines WHERE text LIKE '%住宿%'",
    )
    q.add(
        "document",
        "en",
        "Who is our contact for coffee beans?",
        words("Duan"),
        must_not=each("Shen"),
        proof="SELECT 'Duan' FROM lines WHERE text LIKE '%Coffee beans%Duan%'",
    )
    q.add(
        "which file",
        "zh",
        "哪些会议纪要提到了徐浩？",
        words("2025-11-10"),
        must_not=each("2025-10-13", "2025-10-27"),
        proof="SELECT DISTINCT path FROM lines WHERE text LIKE '%徐浩%' AND path LIKE '会议纪要%'",
    )
    q.add(
        "summarise",
        "zh",
        "总结一下10月13日的会议纪要",
        words("礼盒"),
        proof="SELECT text FROM lines WHERE path = '会议纪要/2025-10-13.md'",
    )
    q.add(
        "write note",
        "zh",
        "新建一个文件 提醒.txt，内容是：周五前交发票",
        files=(Wrote("提醒.txt", each("周五前交发票")),),
    )
    q.add(
        "save table",
        "zh",
        "把财务部的员工导出为 财务部.csv",
        files=(Wrote("财务部.csv", each("张敏"), each("李强"), rows=4),),
        proof="SELECT COUNT(*), GROUP_CONCAT(姓名) FROM 员工 WHERE 部门 = '财务部'",
    )
    q.add(
        "arithmetic",
        "zh",
        "3,000 盒每盒 168 元，一共多少钱？",
        number(504_000),
        proof="SELECT 3000 * 168",
    )
    q.add(
        "units",
        "zh",
        "26.2 英里是多少公里？",
        number(26.2 * 1.609344),
        proof="SELECT 26.2 * 1.609344",
    )
    q.add("impossible", "zh", "帮我订一张明天去成都的机票", expects="decline")
    return Folder("firm", files, tuple(q.all))

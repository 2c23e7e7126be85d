"""The words of dealings: what is sold, made or lent, where, and how its columns are called."""

from __future__ import annotations

from typing import Final, NamedTuple

Two = tuple[list[str], list[str]]  # English, Chinese


class Domain(NamedTuple):
    """One kind of dealing."""

    deal: tuple[str, str]
    thing: tuple[str, str]
    verb: tuple[str, str]
    past: str
    back: tuple[str, str]
    sold: tuple[str, str]
    worth: Two
    deals: Two
    things: Two
    returns: Two
    names: Two
    groups: Two
    places: Two
    suppliers: Two
    reasons: Two
    columns: dict[str, Two]


def _w(text: str) -> list[str]:
    return [each.strip() for each in text.split(";")]


def _two(english: str, chinese: str) -> Two:
    return _w(english), _w(chinese)


_PLACES: Final = _two(
    "North;South;East;West;Leeds;Porto;Graz;Turin;Lyon;Online;Shop A;Shop B;Harbour;Station;Centre",
    "华北;华南;华东;西南;上海;成都;杭州;线上;一号店;二号店;东门;西门;总部;南京;青岛",
)
_COLUMNS: Final[dict[str, Two]] = {
    "id": _two(
        "order_id;id;number;order_no;ref;receipt;sale_id", "订单号;编号;单号;流水号;订单编号"
    ),
    "date": _two(
        "date;day;order_date;sold_on;when;created;booked", "日期;下单日期;销售日期;时间;登记日期"
    ),
    "place": _two(
        "region;shop;branch;city;channel;market;store;area", "地区;门店;城市;渠道;分店;区域"
    ),
    "name": _two("product;item;article;name;goods;model;title", "产品;商品;品名;名称;货品;型号"),
    "count": _two("units;quantity;qty;pieces;count;amount_sold;volume", "数量;件数;销量;份数;个数"),
    "price": _two(
        "unit_price;price;price_each;price_eur;rate;single_price", "单价;价格;售价;单价_元;每件价格"
    ),
    "amount": _two("amount;total;revenue;sum;value_eur;net", "金额;总额;销售额;金额_元;合计"),
    "group": _two("category;kind;group;type;section;family", "类别;分类;种类;品类;类型"),
    "stock": _two(
        "in_stock;stock;on_hand;available;left;stock_level", "库存;库存量;现有数量;剩余;在库数量"
    ),
    "supplier": _two("supplier;maker;vendor;brand;source", "供应商;厂家;品牌;供货方;厂商"),
    "back": _two("returned_on;date;returned;back_on", "退货日期;日期;退回日期"),
    "reason": _two("reason;why;cause;note", "原因;退货原因;理由;备注"),
}
_WORTH: Final = _two(
    "revenue;turnover;sales value;income;takings", "销售额;营业额;收入;总收入;流水"
)
_MORE: Final = {
    "suppliers": _two(
        "Alder & Co;Birch Supply;Cedar Works;Dahl Trade;Elm Brothers;Fjord Goods",
        "恒发商贸;东海供应;绿源公司;永兴贸易;海棠实业;北方厂",
    )
}


def _domain(
    deal: tuple[str, str],
    thing: tuple[str, str],
    verb: tuple[str, str],
    past: str,
    names: Two,
    groups: Two,
    deals: Two,
    things: Two,
    *,
    back: tuple[str, str] = ("came back", "退回"),
    returns: Two | None = None,
    reasons: Two | None = None,
    sold: tuple[str, str] = ("units", "销量"),
) -> Domain:
    return Domain(
        deal,
        thing,
        verb,
        past,
        back,
        sold,
        _WORTH,
        deals,
        things,
        returns or _two("returns;returned;complaints;refunds", "退货;退货记录;退款;投诉"),
        names,
        groups,
        _PLACES,
        _MORE["suppliers"],
        reasons
        or _two(
            "damaged;wrong size;late;defective;not needed;wrong item",
            "破损;尺寸不对;迟到;故障;不需要;发错货",
        ),
        _COLUMNS,
    )


DOMAINS: Final = (
    _domain(
        ("orders", "订单"),
        ("products", "产品"),
        ("sell", "卖"),
        "sold",
        _two(
            "Desk lamp;Office chair;Bookcase;Side table;Sofa;Wardrobe;Mirror;Rug;Stool;Bench",
            "台灯;办公椅;书柜;茶几;沙发;衣柜;镜子;地毯;凳子;长椅",
        ),
        _two("Seating;Lighting;Storage;Tables;Decor;Textiles", "座椅;灯具;收纳;桌子;装饰;布艺"),
        _two("sales;orders;sold;till;shop_sales", "销售;订单;销售记录;零售;门店销售"),
        _two("stock;products;articles;inventory", "库存;产品;商品表;产品目录"),
    ),
    _domain(
        ("sales", "销售记录"),
        ("drinks", "饮品"),
        ("sell", "卖出"),
        "sold",
        _two(
            "Green tea;Espresso;Latte;Lemonade;Cocoa;Iced tea;Orange juice;Mineral water",
            "绿茶;咖啡;拿铁;柠檬水;可可;冰红茶;橙汁;矿泉水",
        ),
        _two("Hot;Cold;Juice;Tea;Coffee", "热饮;冷饮;果汁;茶类;咖啡类"),
        _two("receipts;cafe_sales;drinks_sold;counter", "收银;饮品销售;咖啡店流水;点单"),
        _two("menu;drinks;cards;assortment", "菜单;饮品表;品种;目录"),
    ),
    _domain(
        ("orders", "订单"),
        ("books", "图书"),
        ("sell", "售出"),
        "sold",
        _two(
            "River Song;Night Train;The Atlas;Small Gardens;Stone Bridge;Winter Letters;Salt Road",
            "江上歌;夜行车;地图集;小花园;石桥;冬天来信;盐路",
        ),
        _two("novel;travel;crime;cooking;history;poetry", "小说;旅行;推理;烹饪;历史;诗歌"),
        _two("book_orders;orders;bookshop;shop_orders", "图书订单;书店销售;订单表;网店订单"),
        _two("books;titles;catalogue;shelf", "图书;书目;书单;馆藏"),
    ),
    _domain(
        ("shipments", "发货单"),
        ("parts", "零件"),
        ("ship", "发货"),
        "shipped",
        _two(
            "Bolt M8;Steel plate;Gear wheel;Valve;Bearing;Cable set;Fuse box;Pump head",
            "螺栓;钢板;齿轮;阀门;轴承;线束;保险盒;泵头",
        ),
        _two("Metal;Electric;Hydraulic;Small parts", "金属件;电气;液压;小件"),
        _two("shipments;deliveries;dispatch;outgoing", "发货;出库;发货记录;配送"),
        _two("parts;warehouse;depot;part_list", "零件;仓库;零件表;物料"),
        sold=("units", "发货量"),
    ),
    _domain(
        ("bookings", "预订"),
        ("tickets", "门票"),
        ("sell", "售出"),
        "sold",
        _two(
            "Museum pass;Boat tour;Night walk;Castle ticket;Family day;Zoo entry;Tower visit",
            "博物馆票;游船票;夜游票;城堡票;家庭票;动物园票;登塔票",
        ),
        _two("Culture;Nature;Water;Family;Evening", "文化;自然;水上;亲子;夜间"),
        _two("bookings;ticket_sales;visitors;reservations", "预订;售票;门票销售;预约"),
        _two("tours;tickets;offers;programme", "线路;票种;产品;项目"),
        back=("were cancelled", "取消"),
        returns=_two("cancelled;cancellations;refunds", "取消;退票;退款"),
        reasons=_two("weather;illness;double booking;other", "天气;生病;重复预订;其他"),
        sold=("tickets", "售票量"),
    ),
    _domain(
        ("batches", "批次"),
        ("goods", "产品"),
        ("make", "生产"),
        "made",
        _two(
            "Rye bread;Croissant;Apple cake;Baguette;Pretzel;Cheese roll;Muffin",
            "黑麦面包;牛角包;苹果蛋糕;法棍;碱水面包;芝士卷;玛芬",
        ),
        _two("Bread;Pastry;Cake;Snack", "面包;酥点;蛋糕;小吃"),
        _two("production;batches;bakery;output", "生产;批次;烘焙;产量记录"),
        _two("recipes_list;goods;range;assortment", "品类表;产品;货架;品种"),
        back=("were thrown away", "报废"),
        returns=_two("waste;losses;scrap", "报废;损耗;废品"),
        reasons=_two("burnt;too old;dropped;wrong recipe", "烤焦;过期;掉落;配方错误"),
        sold=("pieces", "产量"),
    ),
    _domain(
        ("rentals", "租赁记录"),
        ("bikes", "车辆"),
        ("rent out", "租出"),
        "rented out",
        _two(
            "City bike;E-bike;Tandem;Mountain bike;Cargo bike;Kids bike",
            "城市车;电动车;双人车;山地车;载货车;儿童车",
        ),
        _two("electric;classic;family;sport", "电动;经典;亲子;运动"),
        _two("rentals;hires;bike_rentals;trips", "租赁;租车;出租记录;行程"),
        _two("bikes;fleet;vehicles;garage", "车辆;车队;车型;车库"),
        back=("were returned", "归还"),
        returns=_two("claims;damages;incidents", "理赔;损坏;事故"),
        reasons=_two("flat tyre;lost key;accident;broken light", "爆胎;丢钥匙;事故;灯坏"),
        sold=("rentals", "租出量"),
    ),
    _domain(
        ("harvests", "采收记录"),
        ("crops", "作物"),
        ("harvest", "收获"),
        "harvested",
        _two(
            "Potato;Carrot;Onion;Tomato;Pumpkin;Bean;Apple", "土豆;胡萝卜;洋葱;番茄;南瓜;豆角;苹果"
        ),
        _two("root;fruit;leaf;legume", "根茎;果类;叶菜;豆类"),
        _two("harvest;crops_sold;field_book;yield", "采收;收成;农场记录;产出"),
        _two("crops;seeds;beds;plants", "作物;种子;地块表;品种"),
        returns=_two("spoiled;losses;sorted_out", "损坏;损耗;剔除"),
        reasons=_two("rotten;frost;insects;too small", "腐烂;霜冻;虫害;太小"),
        back=("were lost", "损失"),
        sold=("crates", "收获量"),
    ),
)
FILES: Final = _w(
    "north;q1;shop;team;old;export;my;2025;berlin;main;上海;一季度;门店;全年;新;总表;final;web"
)
# Questions that papers answer, though tables lie beside them.
PAPERS: Final = tuple(
    (each.split("|")[0].strip(), each.split("|")[1].strip())
    for each in """
What is the annual fee for students? | 学生的年费是多少？
How much does membership cost for families? | 家庭会员要交多少钱？
When do we open on Saturdays? | 星期六几点开门？
Until when is the office open on Fridays? | 周五办公室开到几点？
When will the publisher deliver? | 出版社什么时候交货？
When does the supplier deliver the new machine? | 供应商什么时候送新机器？
What budget did the board agree on for next year? | 理事会批准的明年预算是多少？
What was decided about the new website? | 关于新网站作了什么决定？
Who takes care of the fire drill? | 消防演习由谁负责？
What is the notice period? | 解约通知期是多久？
How high is the deposit? | 押金是多少？
Who signed the agreement? | 协议是谁签的？
What is the penalty for late payment? | 逾期付款的罚金是多少？
How long is the warranty? | 保修期有多长？
What is the caretaker's phone number? | 管理员的电话是多少？
What e-mail address do I write to for complaints? | 投诉应该发到哪个邮箱？
How many days of leave do new colleagues get? | 新同事有几天年假？
How long is the probation period? | 试用期是多长？
Why was the delivery late? | 送货为什么晚了？
What has to be brought to the first lesson? | 第一节课要带什么？
When does the train to Bergen leave? | 去卑尔根的火车几点出发？
Where is the next meeting held? | 下次会议在哪里开？
Who attended the last meeting? | 上次会议谁参加了？
Who was missing at the kick-off? | 启动会谁缺席？
By when must the report be handed in? | 报告什么时候之前要交？
What are the terms of payment? | 付款条件是什么？
May I bring my dog? | 可以带狗吗？
How often can a book be renewed? | 一本书可以续借几次？
What is the fine per day? | 每天的罚款是多少？
What does the insurance cover? | 保险包括什么？
Which version fixed the login problem? | 哪个版本修复了登录问题？
Who is the landlord? | 房东是谁？
What rent was agreed? | 商定的租金是多少？
When does the lease end? | 租约什么时候到期？
How many people is the soup for? | 汤是几人份的？
What is the discount for early booking? | 提前预订有多少折扣？
What did the doctor recommend? | 医生建议了什么？
How is the device reset? | 设备怎么重置？
What are the next steps for the project? | 项目的下一步是什么？
Which risks does the plan name? | 计划里提到了哪些风险？
What salary does the offer name? | 录用通知里写的工资是多少？
Where do we park? | 我们在哪里停车？
""".strip().splitlines()
)

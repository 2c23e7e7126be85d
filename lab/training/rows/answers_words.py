"""Bilingual vocabulary of the generated documents: names, attributes, events, reasons, rules."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Language = Literal["en", "zh"]


class Pair(NamedTuple):
    """The same words in English and Chinese."""

    en: str
    zh: str

    def says(self, language: Language) -> str:
        """Returns the words in one language."""
        return self.en if language == "en" else self.zh


def pairs(text: str) -> tuple[Pair, ...]:
    """Reads lines of `English | Chinese`."""
    lines = (line.split("|") for line in text.strip().splitlines())
    return tuple(Pair(en.strip(), zh.strip()) for en, zh in lines)


def _split(text: str, mark: str | None = None) -> tuple[str, ...]:
    return tuple(text.split(mark))


def columns(text: str) -> tuple[tuple[str, ...], ...]:
    """Reads lines of several columns, separated by `|`."""
    return tuple(
        tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()
    )


FIRST: Final = _split(
    "Ada Amir Anna Ben Bruno Carla Chen Clara Daniel Diego Elena Emma Erik Fatima Felix Grace "
    "Hannah Hugo Ines Ivan Jack Jana Jonas Julia Karim Kate Laura Leo Lina Lukas Maria Marta Max "
    "Mei Mira Nadia Nina Noah Olga Omar Oscar Paul Petra Priya Rafael Rosa Sam Sara Simon Sofia "
    "Tariq Tess Tom Uma Vera Victor Wanda Yusuf Zoe Aisha Bjorn Chloe Dmitri Esther Farid Gita",
)
LAST: Final = _split(
    "Adler Baker Berg Bianchi Brook Castro Clark Costa Dahl Diaz Dubois Eriksen Evans Fischer "
    "Ford Garcia Gray Haas Hall Hansen Ito Jansen Jones Kaur Keller Khan Kim Klein Kowalski Lang "
    "Lee Lopez Marsh Martin Meyer Moreau Nagy Novak Okafor Olsen Park Patel Perez Quinn Reed Rossi "
    "Sato Schmidt Silva Singh Stone Tanaka Torres Ueda Vance Vogel Walsh Weber West Wood Young",
)
SURNAMES: Final = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾"
    "彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔"
    "康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
)
GIVEN: Final = _split(
    "伟 芳 娜 敏 静 丽 强 磊 军 洋 勇 艳 杰 娟 涛 明 超 秀英 霞 平 刚 桂英 文博 雨桐 子轩 思远 "
    "佳怡 浩然 梦琪 嘉豪 晓东 海燕 志强 雪梅 天宇 若曦 俊杰 欣怡 一鸣 晨曦 立新 春华 小兰 国栋 "
    "建国 淑珍 玉兰 宏伟 亚楠 瑞雪 思琪 宇航 婷婷 丹丹 鹏飞 振华 凤霞 立军 慧敏 世昌 家明 可欣 "
    "沐阳 诗涵 景行 知行 巧云 福生 长青 晓雯 莉 波 斌 颖 琳 燕 宁 凯 辉 云 彬 岚 峰 萍 玲 浩 洁 倩",
)
CITIES: Final = pairs("""
Leeds | 利兹
Oslo | 奥斯陆
Lyon | 里昂
Hamburg | 汉堡
Porto | 波尔图
Boston | 波士顿
Denver | 丹佛
Turin | 都灵
Vienna | 维也纳
Osaka | 大阪
Shanghai | 上海
Chengdu | 成都
Hangzhou | 杭州
Nanjing | 南京
Shenzhen | 深圳
Xi'an | 西安
Wuhan | 武汉
Toronto | 多伦多
Geneva | 日内瓦
Prague | 布拉格
""")
COMPANIES: Final = _split(
    "Alder Ltd;Brightwater GmbH;Corvid Systems;Delta Print;Eastgate Foods;Fenwick & Sons;"
    "Greenline Energy;Harbour Logistics;Iris Optics;Juniper Labs;Kestrel Media;Lumen Works;"
    "Marlow Paper;Northfield Dairy;Orchard Health;Pinewood Furniture;Quarry Stone Co;Redwood Bank;"
    "Silverlake Hotel;Tidewater Boats;Umber Design;Vantage Travel;Willow Clinic;Yarrow Textiles;"
    "Zephyr Air;华茂科技;远景物流;蓝天印刷;东方食品;金桥置业;海纳咨询;星河传媒;青松家具;瑞丰贸易;"
    "长江电子;晨光文具;万合物业;北辰旅行社;新苗幼儿园;康宁医院",
    ";",
)
STREETS: Final = _split(
    "Mill Lane;Harbour Road;Station Street;Park Avenue;Church Hill;Queen Street;River Walk;"
    "Oak Drive;Market Square;Castle Road;中山路;人民路;解放大道;建设街;和平里;长安街;文昌巷;滨江路",
    ";",
)
CODENAMES: Final = _split(
    "Heron;Kestrel;Aurora;Basalt;Cobalt;Dune;Ember;Falcon;Granite;Horizon;Indigo;Jasper;Lotus;"
    "Meridian;Nimbus;Onyx;Pelican;Quartz;Raven;Sierra;Tundra;Umbra;Vesper;Zenith;苍鹭;晨星;启明;"
    "飞鱼;青鸟;磐石;远航;彩虹;北斗;银杏;星火;云帆",
    ";",
)
# Nouns with an amount of money: home, work, trade, event, device or club.
MONEY: Final = pairs("""
monthly rent | 月租
deposit | 押金
budget | 预算
cleaning fee | 清洁费
late fee | 滞纳金
annual salary | 年薪
travel allowance | 差旅补贴
total price | 总价
unit price | 单价
shipping cost | 运费
entrance fee | 入场费
membership fee | 会费
repair cost | 维修费
service charge | 服务费
hourly rate | 时薪
down payment | 首付款
bonus | 奖金
insurance premium | 保险费
registration fee | 报名费
catering cost | 餐饮费用
licence fee | 许可费
parking fee | 停车费
tuition | 学费
printing cost | 印刷费
invoice total | 发票总额
training budget | 培训预算
marketing budget | 市场预算
heating cost | 取暖费
electricity bill | 电费
contract value | 合同金额
refund | 退款金额
compensation | 赔偿金
donation | 捐款
ticket price | 票价
daily rate | 日薪
equipment cost | 设备费用
""")
DURATION: Final = pairs("""
notice period | 通知期
warranty | 保修期
probation period | 试用期
lease term | 租期
payment term | 付款期限
delivery time | 交货时间
lunch break | 午休时间
trial period | 试用期限
return period | 退货期限
project duration | 项目工期
response time | 响应时间
battery life | 电池续航
training course | 培训课程时长
parental leave | 育儿假
retention period | 保存期限
waiting period | 等待期
journey | 行程时间
guarantee | 质保期
maintenance window | 维护时间
contract period | 合同期限
""")
PERCENT: Final = pairs("""
discount | 折扣
VAT rate | 增值税率
interest rate | 利率
penalty rate | 违约金比例
commission | 佣金比例
growth rate | 增长率
attendance rate | 出勤率
error rate | 错误率
pass rate | 通过率
approval rate | 支持率
vacancy rate | 空置率
market share | 市场份额
rent increase | 租金涨幅
tip | 小费比例
return rate | 退货率
profit margin | 利润率
""")
ROLES: Final = pairs("""
landlord | 房东
tenant | 租户
project lead | 项目负责人
minute taker | 会议记录人
contact person | 联系人
treasurer | 财务负责人
chair of the meeting | 会议主持人
supervisor | 主管
author of the report | 报告作者
sponsor | 项目发起人
customer | 客户
architect | 架构师
designer | 设计师
trainer | 培训讲师
speaker | 主讲人
driver | 司机
head of sales | 销售主管
data protection officer | 数据保护负责人
safety officer | 安全员
buyer | 采购员
seller | 卖方
reviewer | 审阅人
team coach | 教练
caretaker | 物业管理员
witness | 见证人
product owner | 产品负责人
tester | 测试人员
guest of honour | 特邀嘉宾
class teacher | 班主任
accountant | 会计
""")
IDS: Final = columns("""
invoice number | 发票号 | INV-
order number | 订单号 | ORD-
contract number | 合同编号 | C-
customer number | 客户编号 | K
serial number | 序列号 | SN
booking code | 预订号 | BK
ticket number | 工单号 | T-
policy number | 保单号 | P-
tracking number | 快递单号 | TR
file reference | 案卷号 | REF-
version | 版本号 | v
flight number | 航班号 | LH
model number | 型号 | MX-
""")

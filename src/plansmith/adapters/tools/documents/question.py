"""What a question asks for: its words with their weights, similar words, and the kind of answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from plansmith.adapters.context.lexical import terms
from plansmith.planner.shortlist.words import FILLER, STOP, is_cjk, stem
from plansmith.text import CJK_RANGE

_LIKENESS: Final = 0.6
_LONE_CHARACTER: Final = 0.4
_RUN: Final = re.compile(rf"[{CJK_RANGE}]+")
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)

# Words of documents and of questions about them; each line is one thing said in several ways.
_SAME: Final = """
attend attendee attended participant participate present join joined 参加 出席 与会 参会 到场 参与
absent apologies excused missing 缺席 请假 未到
end expire expiry expiration expires terminate termination until 到期 结束 终止 期满 截止 有效
deadline due until latest 截止 期限 到期 最晚 最后
start begin commence commencement effective 开始 起始 生效 起租 启动
cost price fee amount charge 价格 费用 金额 价钱 花费 收费 单价
rent rental monthly 租金 房租 月租
pay payment paid instalment installment 付款 支付 缴纳 付费
salary wage pay compensation 工资 薪资 薪水 月薪
budget spend spending cost 预算 经费 开支
total sum overall altogether 总额 总计 合计 总共 一共
deposit security 押金 定金 保证
lease rental tenancy rent tenant landlord 租约 租赁 租房 承租 出租
tenant lessee renter 租客 承租 租户
landlord lessor owner 房东 出租
contract agreement 合同 协议 合约
notice terminate cancel cancellation 通知 解约 取消 解除
penalty fine late 罚款 违约 滞纳
address location place venue site room 地址 地点 位置 场地 会议室
phone telephone mobile tel cell contact number 电话 手机 联系 号码
email mail e-mail contact 邮箱 邮件 联系
responsible charge owner lead assign assigned manager head 负责 主管 经理 牵头
boss manager supervisor director 经理 主管 上级 总监
decide decision decided agreed resolve resolved approve approved 决定 决议 同意 批准 通过
action task todo item step follow 任务 待办 行动 事项 跟进 下一步
meeting minutes agenda conference 会议 纪要 例会 开会 会上
discuss topic talk agenda 讨论 议题 话题 商讨
vacation holiday leave 假期 年假 休假 放假
warranty guarantee 保修 质保 保证
error fail failure failed exception fatal crash 错误 失败 异常 故障 报错
warn warning 警告 告警
version release 版本 发布
supplier vendor provider 供应 厂商 卖方
customer client buyer 客户 顾客 买方
problem issue risk concern incident 问题 风险 隐患 事故
cause reason root because 原因 因为 由于 缘故
fix solution resolve solve repair 修复 解决 办法 方案
birthday born birth 生日 出生
refund return reimburse money 退款 退货 报销
deliver delivery ship shipping arrive arrival 交货 发货 送达 配送 到货 交付
password login credential 密码 登录 口令
tax vat 税 税率 增值
increase raise rise grow growth up 增加 增长 上涨 提高
decrease drop fall decline reduce 减少 下降 降低
buy purchase order bought 购买 采购 订购
sign signed signature party parties 签署 签订 签字 双方 甲方 乙方
open opening hours 营业 开放 时间
schedule timetable plan timeline 安排 日程 计划 进度
goal target objective aim 目标 目的
result outcome finding conclusion 结果 结论 成果
ingredient recipe 配料 食材 原料 材料
company firm employer business 公司 企业 单位
name called title 名字 姓名 名称 标题
author written wrote writer 作者 撰写
hotel stay accommodation 酒店 住宿 宾馆
flight depart departure airline 航班 起飞 飞机
doctor physician clinic hospital 医生 医院 大夫
medicine drug dose dosage tablet 药 药物 剂量 服用
car vehicle 汽车 车辆 车
house flat apartment property premises 房屋 公寓 房子 住房
team staff member colleague employee people 团队 成员 员工 同事 人员
remote home office 远程 居家 在家
interest rate 利率 利息
insurance insured policy 保险 投保
january jan 01 一月
february feb 02 二月
march mar 03 三月
april apr 04 四月
may 05 五月
june jun 06 六月
july jul 07 七月
august aug 08 八月
september sep sept 09 九月
october oct 10 十月
november nov 11 十一月
december dec 12 十二月
"""
# What only makes a Chinese question of a sentence; it parts the words beside it.
_ASKING: Final = re.compile(
    "什么时候|什么|多少钱|多少|几个|几号|几点|几|谁|哪些|哪个|哪里|哪天|哪|怎么样|怎么|怎样|如何|为什么|是否|"
    "有没有|请问|告诉我|告诉|请|一下|里面|里|文件夹|文件|文档|根据|关于|内容|提到|写着|写|说|的|了|吗|呢|吧|"
    "我|你|您|他|她|它|们|是|在|和|与|及|或|也|都|就|要|帮|想|给|把|被|让|这|那|个|一|有|中|上|次"
)
_MONTHS: Final = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_WHEN: Final = (
    r"\bwhen\b|\bwhat (?:date|day|time)\b|\bdeadline\b|\buntil\b"
    "|什么时候|何时|几号|哪天|日期|几点|到期|截止"
)
_DAY: Final = (
    rf"\d{{4}}-\d\d|\d{{1,2}}:\d\d|\b(?:{_MONTHS})\b\.? ?\d|\d (?:{_MONTHS})\b"
    r"|\d ?[月日号点]|day\b|星期|周[一二三四五六日]"
)
_HOW_MUCH: Final = (
    r"\bhow much\b|\b(?:costs?|prices?|fees?|rent|salary|budget)\b"
    "|多少钱|费用|价格|租金|金额|工资|预算"
)
_MONEY: Final = (
    r"[$€£¥￥] ?\d|\d[\d,.]* ?(?:usd|eur|gbp|cny|rmb|dollars?|euros?|pounds?|yuan|元|万|块)"
)
# What a question asks with, and what its answer then looks like.
_KINDS: Final = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(answer, re.IGNORECASE))
    for asked, answer in (
        (_WHEN, _DAY),
        (_HOW_MUCH, _MONEY),
        (r"\bhow (?:many|long|old|far|big)\b|多少|几|多长|多久", r"\d|[二两三四五六七八九十百]"),
        (r"\be-?mail\b|邮箱|邮件地址", r"\S@\S"),
        (r"\b(?:tele)?phone\b|\bcall\b|电话|手机|号码", r"\+?\d[\d ()-]{5,}\d"),
        (r"\bwho(?:m|se)?\b|谁|哪些人|负责人", r"attend|particip|参加|出席|与会|负责|[:：]"),
    )
)
_LATEST: Final = re.compile(
    r"\b(?:latest|last|newest|most recent|recent)\b|最近|最新|上次|上一次|最后一次", re.IGNORECASE
)


class Word(NamedTuple):
    """A word of a question: its forms in a text, each with a likeness from 0 to 1."""

    forms: Mapping[str, float]
    weight: float


class Question(NamedTuple):
    """The words of a question, what its answer looks like, and whether the newest is meant."""

    words: tuple[Word, ...]
    answers: tuple[re.Pattern[str], ...]
    latest: bool


def read_question(text: str) -> Question:
    """Takes a question apart, in English or Chinese."""
    words = {term: Word(_forms(term), weight) for term, weight in _terms(text)}
    answers = tuple(answer for asked, answer in _KINDS if asked.search(text))
    return Question(tuple(words.values()), answers, bool(_LATEST.search(text)))


def _terms(text: str) -> Iterator[tuple[str, float]]:
    plain = _ORDINAL.sub("", text)
    for term in terms(_RUN.sub(" ", plain)):
        if term not in STOP:
            yield stem(term), 0.5 if term in FILLER else 1.0
    for run in _RUN.findall(plain):
        for part in _ASKING.split(run):
            if len(part) == 1:
                yield part, _LONE_CHARACTER
            yield from ((part[at : at + 2], 1.0) for at in range(len(part) - 1))


def _forms(term: str) -> Mapping[str, float]:
    forms = dict.fromkeys(_same().get(term, ()), _LIKENESS) | {term: 1.0}
    if term.isdecimal() and len(term) <= 2:
        # A day or a month may be written with a zero before it, or without.
        forms |= {term.lstrip("0") or "0": 1.0, term.zfill(2): 1.0}
    return forms


@cache
def _same() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in _SAME.strip().splitlines():
        group = frozenset(word if is_cjk(word) else stem(word) for word in line.split())
        for word in group:
            found[word] = found.get(word, frozenset()) | group
    return found

"""Units of measure: what the calculator calls those of Chinese speakers."""

from __future__ import annotations

import re
from typing import Final

# Each line is a unit as the calculator writes it, and its Chinese names.
_NAMES: Final = """
km 公里 千米
m 米
dm 分米
cm 厘米 公分
mm 毫米
um 微米
nm 纳米
mile 英里
nmi 海里
ft 英尺
in 英寸
yd 码
ly 光年
kg 公斤 千克
g 克
mg 毫克
tonne 吨 公吨
lb 磅
oz 盎司
st 英石
ct 克拉
L 升 公升
mL 毫升
gallon 加仑
pint 品脱
quart 夸脱
cup 杯
tbsp 汤匙
tsp 茶匙
m^3 立方米
cm^3 立方厘米
m^2 平方米
km^2 平方公里 平方千米
cm^2 平方厘米
ft^2 平方英尺
mile^2 平方英里
ha 公顷
acre 英亩
°C 摄氏度 摄氏
°F 华氏度 华氏
K 开尔文
s 秒 秒钟
min 分钟
h 小时 个小时 钟头
d 天 日
wk 周 星期 个星期
ms 毫秒
B 字节
bit 比特
kB 千字节
MB 兆字节 兆
GB 吉字节
TB 太字节
kW 千瓦
W 瓦
hp 马力
J 焦耳
kJ 千焦
cal 卡路里 卡
kcal 大卡 千卡
kWh 千瓦时 度电
Pa 帕 帕斯卡
kPa 千帕
atm 大气压
bar 巴
km/h 公里每小时 千米每小时 公里/小时
mph 英里每小时
m/s 米每秒 米/秒
kn 节
"""
CHINESE_UNITS: Final = {
    name: unit for unit, *names in map(str.split, _NAMES.strip().splitlines()) for name in names
}
_DEGREES: Final = re.compile(r"(?:degrees? |° ?)?(c(?:elsius)?|f(?:ahrenheit)?)", re.IGNORECASE)


def unit_name(said: str) -> str:
    """Returns a unit as the calculator writes it; what is not known stays as it was said."""
    name = CHINESE_UNITS.get(said.strip(), said.strip())
    if degrees := _DEGREES.fullmatch(name):
        return f"°{degrees[1][0].upper()}"
    return name.upper() if name in ("kb", "mb", "gb", "tb") else name

"""Bilingual phrases of the generated documents: events, reasons, rules, deeds, decisions."""

from __future__ import annotations

from typing import Final

from lab.training.rows.answers_words import columns, pairs

# What happens on a day: English subject, "ends", "end"; Chinese subject and verb.
EVENTS: Final = columns("""
the lease | ends | end | 租约 | 到期
the lease | starts | start | 租约 | 生效
the contract | expires | expire | 合同 | 到期
the contract | begins | begin | 合同 | 开始生效
the warranty | runs out | run out | 保修 | 到期
the project | starts | start | 项目 | 启动
the project | ends | end | 项目 | 结束
the new website | goes live | go live | 新网站 | 上线
the next meeting | takes place | take place | 下次会议 | 召开
the audit | takes place | take place | 审计 | 进行
the workshop | takes place | take place | 研讨会 | 举行
the goods | arrive | arrive | 货物 | 到货
the invoice | is due | fall due | 发票 | 到期付款
the rent | is raised | rise | 租金 | 上调
the offer | lapses | lapse | 报价 | 失效
the office | reopens | reopen | 办公室 | 重新开放
the office | closes | close | 办公室 | 关闭
the old server | is switched off | go off | 旧服务器 | 停用
the trial | ends | end | 试用 | 结束
the subscription | renews | renew | 订阅 | 续费
the exam | takes place | take place | 考试 | 举行
the registration | closes | close | 报名 | 截止
the inspection | takes place | take place | 检查 | 进行
the new colleague | starts | start | 新同事 | 入职
the training | starts | start | 培训 | 开始
the product | launches | launch | 产品 | 发布
the beta test | begins | begin | 公测 | 开始
the summer party | takes place | take place | 夏季聚会 | 举行
the renovation | starts | start | 装修 | 开工
the renovation | ends | end | 装修 | 完工
the report | is due | have to be ready | 报告 | 需提交
the membership | expires | expire | 会员资格 | 到期
the elevator | is serviced | get serviced | 电梯 | 维保
the museum visit | takes place | take place | 参观博物馆 | 进行
the move | takes place | take place | 搬家 | 进行
""")
GATHERINGS: Final = pairs("""
the workshop | 研讨会
the team dinner | 团队聚餐
the training | 培训
the handover | 交接
the kickoff | 启动会
the interview | 面试
the board meeting | 董事会会议
the parents' evening | 家长会
the product demo | 产品演示
the fire drill | 消防演习
the yoga class | 瑜伽课
the book club | 读书会
the concert | 音乐会
the tour | 参观活动
the press conference | 新闻发布会
the farewell party | 欢送会
the webinar | 网络研讨会
the weekly review | 周例会
""")
ROOMS: Final = pairs("""
room {n} | {n}号会议室
the library on floor {n} | {n}楼图书室
the canteen | 食堂
the small hall | 小礼堂
the garden | 花园
the seminar room in building {n} | {n}号楼研讨室
the lobby | 大厅
the Riverside Café | 河畔咖啡馆
the training centre | 培训中心
the head office | 总部
warehouse {n} | {n}号仓库
the town hall | 市政厅
the gym | 体育馆
""")
# Things that are counted: English plural, Chinese with its measure word.
THINGS: Final = columns("""
desks | 张办公桌 | 办公桌
chairs | 把椅子 | 椅子
laptops | 台笔记本电脑 | 笔记本电脑
parking spaces | 个停车位 | 停车位
participants | 名参与者 | 参与者
volunteers | 名志愿者 | 志愿者
tickets | 张票 | 票
licences | 个许可证 | 许可证
printers | 台打印机 | 打印机
keys | 把钥匙 | 钥匙
boxes | 个箱子 | 箱子
customers | 位客户 | 客户
bicycles | 辆自行车 | 自行车
employees | 名员工 | 员工
complaints | 起投诉 | 投诉
pallets | 个托盘 | 托盘
beds | 张床位 | 床位
vacation days | 天年假 | 年假
sick days | 天病假 | 病假
users | 名用户 | 用户
test cases | 个测试用例 | 测试用例
open bugs | 个未解决的缺陷 | 未解决的缺陷
applications | 份申请 | 申请
trees | 棵树 | 树
meals | 份餐 | 餐
""")
# What happened, how one asks why, and the same in Chinese.
HAPPENINGS: Final = columns("""
the launch was postponed | was the launch postponed | 发布被推迟
the meeting was cancelled | was the meeting cancelled | 会议被取消
the price went up | did the price go up | 价格上涨
the delivery was late | was the delivery late | 交货延误
the server went down | did the server go down | 服务器宕机
the supplier was changed | was the supplier changed | 更换了供应商
the budget was cut | was the budget cut | 预算被削减
the trip was shortened | was the trip shortened | 行程缩短
the order was returned | was the order returned | 订单被退回
the office moved | did the office move | 办公室搬迁
the test failed | did the test fail | 测试失败
the application was rejected | was the application rejected | 申请被拒
the course was moved online | was the course moved online | 课程改为线上
the sales fell | did the sales fall | 销售额下降
the shop closed early | did the shop close early | 商店提前关门
the contract was terminated | was the contract terminated | 合同被终止
the report was rewritten | was the report rewritten | 报告重写
the elevator was out of order | was the elevator out of order | 电梯停用
the flight was rebooked | was the flight rebooked | 航班改签
the deposit was kept | was the deposit kept | 押金未退
""")
REASONS: Final = pairs("""
the supplier delivered too late | 供应商交货太晚
two colleagues were ill | 两位同事生病了
the raw materials became more expensive | 原材料涨价
a certificate had expired | 证书已过期
the disk was full | 磁盘已满
the storm closed the port | 暴风雨导致港口关闭
the customer changed the requirements | 客户更改了需求
the paint was damaged | 油漆受损
the old room was too small | 原来的房间太小
a form was missing | 缺少一份表格
the translation was not finished | 翻译尚未完成
the new law demands it | 新法规要求如此
the heating had failed | 暖气坏了
too few people had registered | 报名人数太少
the bank needed a second signature | 银行需要第二个签名
the data were incomplete | 数据不完整
a competitor was cheaper | 竞争对手更便宜
the bridge was under repair | 桥梁正在维修
the software update had a bug | 软件更新有缺陷
the speaker missed the train | 主讲人误了火车
""")
# Subject, what is allowed; "is/are" first. Chinese: what may be done.
RULES: Final = columns("""
are | pets | allowed | 饲养宠物
is | smoking | allowed on the balcony | 在阳台吸烟
is | subletting | allowed | 转租
is | working from home | allowed on Fridays | 周五居家办公
are | private calls | allowed at work | 工作时间打私人电话
is | overtime | paid | 领取加班费
are | returns | accepted without a receipt | 无收据退货
is | parking | free for visitors | 访客免费停车
are | guests | admitted after 22:00 | 22:00后带访客进入
is | photography | permitted in the hall | 在大厅拍照
is | the deposit | refundable | 退还押金
are | bicycles | allowed in the hallway | 在走廊停放自行车
is | remote access | permitted from abroad | 从境外远程访问
are | personal devices | allowed in the network | 将个人设备接入网络
is | breakfast | included | 享用含在内的早餐
are | changes | possible after the order | 下单后更改
is | the fee | refunded when one cancels | 取消后退费
are | barbecues | allowed in the garden | 在花园烧烤
is | a second job | permitted | 兼职
are | children | allowed in the lab | 带儿童进入实验室
""")
# Deeds that somebody has to do: "send", "sends"-free forms.
DEEDS: Final = pairs("""
send the offer to the customer | 把报价发给客户
book the hotel | 预订酒店
order new chairs | 订购新椅子
update the website | 更新网站
call the landlord | 给房东打电话
prepare the slides | 准备幻灯片
check the invoices | 核对发票
translate the brochure | 翻译宣传册
fix the login page | 修复登录页面
write the test report | 撰写测试报告
collect the survey answers | 收集问卷答复
renew the insurance | 续保
clean up the archive | 整理档案
invite the speakers | 邀请演讲嘉宾
buy the train tickets | 购买火车票
install the new printer | 安装新打印机
talk to the works council | 与工会沟通
draw up the budget | 编制预算
interview the candidates | 面试候选人
back up the database | 备份数据库
review the contract | 审阅合同
plan the summer party | 策划夏季聚会
send out the minutes | 发送会议纪要
test the alarm system | 测试报警系统
compare three suppliers | 比较三家供应商
""")
# Topic and what was decided about it.
DECISIONS: Final = columns("""
the coffee machine | buy a new coffee machine | 咖啡机 | 购买一台新咖啡机
the office hours | open the office at eight | 办公时间 | 办公室八点开门
the logo | keep the old logo | 标志 | 保留旧标志
the newsletter | send the newsletter only once a month | 通讯 | 通讯每月只发一次
the supplier | ask a second supplier for an offer | 供应商 | 请第二家供应商报价
the garden | plant three apple trees | 花园 | 种三棵苹果树
the software | move to the new version after the holidays | 软件 | 假期后升级到新版本
the hiring | hire a part-time assistant | 招聘 | 招聘一名兼职助理
the Monday meeting | drop the Monday meeting | 周一例会 | 取消周一例会
the prices | leave the prices unchanged this year | 价格 | 今年价格保持不变
the packaging | use paper instead of plastic | 包装 | 用纸代替塑料
the database | migrate the database at the weekend | 数据库 | 周末迁移数据库
the trade fair | share a stand with the partner | 展会 | 与合作伙伴共用展位
the car park | reserve two places for visitors | 停车场 | 为访客预留两个车位
the heating | replace the boiler before winter | 供暖 | 冬天前更换锅炉
the travel rules | allow only second class | 差旅规定 | 只允许乘坐二等座
the backup | store a copy in another building | 备份 | 在另一栋楼存放副本
the training | offer the course twice | 培训 | 课程开设两次
""")
# How something is done, with a number where `{n}` stands.
MANUAL: Final = columns("""
reset the device | hold the power button for {n} seconds | 重置设备 | 按住电源键{n}秒
change the filter | open the left cover and pull out the filter | 更换滤芯 | 打开左盖并取出滤芯
pair the headset | press both buttons until the light is blue | 配对耳机 | 按住两个按键直到灯变蓝
clean the machine | rinse it with {n} ml of vinegar | 清洁机器 | 用{n}毫升醋冲洗
install the package | run setup.sh and restart the computer | 安装软件包 | 运行setup.sh并重启电脑
request leave | fill in form {n} and give it to your supervisor | 申请休假 | 填写{n}号表格并交给主管
report an accident | call extension {n} at once | 报告事故 | 立即拨打分机{n}
export the data | choose "Save as" in the menu and pick CSV | 导出数据 | 在菜单中选择"另存为"并选CSV
start the engine | turn the key and wait {n} seconds | 启动发动机 | 转动钥匙并等待{n}秒
return a product | send it back within {n} days with the receipt | 退货 | 在{n}天内连同收据寄回
open the safe | enter the code and turn the handle right | 打开保险柜 | 输入密码并向右转把手
connect to the network | choose "Guest" and accept the rules | 连接网络 | 选择"Guest"并接受条款
descale the kettle | boil {n} ml of water with lemon juice | 给水壶除垢 | 用柠檬汁煮沸{n}毫升水
book a room | write to the front desk {n} days ahead | 预订会议室 | 提前{n}天写信给前台
""")
ITEMS: Final = pairs("""
passport | 护照
sturdy shoes | 结实的鞋子
a laptop | 笔记本电脑
the signed form | 签好字的表格
two photos | 两张照片
a water bottle | 水壶
the old contract | 旧合同
a helmet | 头盔
gloves | 手套
the insurance card | 保险卡
a towel | 毛巾
the invoice | 发票
a pen | 笔
warm clothes | 保暖衣物
the key card | 门禁卡
a packed lunch | 午餐盒
sunscreen | 防晒霜
the certificate | 证书
""")
TOPICS: Final = pairs("""
budget | 预算
hiring | 招聘
office move | 办公室搬迁
customer survey | 客户调查
new website | 新网站
safety | 安全
holiday plan | 假期安排
trade fair | 展会
product roadmap | 产品路线图
training | 培训
data protection | 数据保护
energy costs | 能源费用
quality | 质量
logistics | 物流
""")
STATES: Final = pairs("""
delayed by a week | 推迟了一周
finished | 已完成
out of stock | 缺货
waiting for approval | 等待批准
on schedule | 按计划进行
cancelled | 已取消
being repaired | 正在维修
half done | 完成了一半
ready for pickup | 可以取货
under review | 正在审核
""")
OBJECTS: Final = pairs("""
the website redesign | 网站改版
the blue sofa | 蓝色沙发
the annual report | 年度报告
the payment module | 支付模块
the second elevator | 二号电梯
the new brochure | 新宣传册
the data migration | 数据迁移
the visa application | 签证申请
the roof repair | 屋顶维修
the oak table | 橡木桌
the mobile app | 手机应用
the price list | 价目表
the coffee order | 咖啡订单
the translation | 翻译工作
""")

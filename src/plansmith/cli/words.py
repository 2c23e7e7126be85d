"""What the command line says of its own, in English and Chinese."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

Words = Mapping[str, str]

ENGLISH: Final[Words] = {
    "waiting": "waiting",
    "ready": "ready",
    "running": "running",
    "asking": "waiting for you",
    "done": "done",
    "failed": "failed",
    "skipped": "skipped",
    "cancelled": "cancelled",
    "unknown": "unknown: did it happen?",
    "triaging": "reading the request",
    "planning": "planned",
    "reviewing": "waiting for your approval",
    "paused": "paused",
    "replanning": "planning again",
    "reporting": "writing the report",
    "partly_done": "partly done",
    "answered": "answered",
    "more": "… and {count} more",
    "head_running": "{count} running",
    "head_waiting": "{count} waiting for you",
    "head_failed": "{count} failed",
    "review": "This plan waits for your approval.",
    "degraded": "No usable plan could be made; nothing was run.",
    "hash": "hash {hash}",
    "approve": "Run this plan? y = yes, n = reject it, e = edit it, c TEXT = ask for changes, "
    "Enter = not now: ",
    "approve_only": "Approve this plan? y = yes, Enter = not now: ",
    "approved": "approved",
    "rejected": "rejected: nothing was run",
    "not_now": "not approved: nothing was run",
    "changed": "changed plan:",
    "question": "Question {name}: {text}",
    "by_program": "answered by the program {name}",
    "answer": "Your answer (Enter = later): ",
    "waits": "The run waits for you:",
    "then": "and then:",
    "edit_again": "Open it again? Y = yes, n = leave the plan as it was: ",
    "kept": "your text is kept in {path}",
    "unchanged": "nothing was changed",
    "stopping": "Stopping: what runs now may end. Ctrl-C again cancels the run.",
    "detached": "Detached. To go on:",
    "cancelling": "Cancelling …",
    "watching": "Following a run of another process. If that is gone:",
    "go_on": "To go on:",
    "paused_now": "Paused. To go on:",
    "no_runs": "there are no runs",
    "schedule_is": "It would run unattended, {timing}; next:",
    "schedule_ask": "Run this plan unattended at these times? y = yes, Enter = not now: ",
    "schedule_or_once": "Keep it as a schedule? y = yes, o = only once, now, Enter = not now: ",
    "schedule_waits": "Nothing is scheduled without your approval of this plan:",
    "schedule_kept": "kept as the schedule {name}; this fires what is due:",
    "no_model": "There is no language model to plan with: no key, no server, none on this machine.",
    "fetch": "Fetch it now? [Y/n] ",
    "without_model": "going on by rules; `plansmith model pull` gets the model later",
}

CHINESE: Final[Words] = {
    "waiting": "等待",
    "ready": "就绪",
    "running": "运行中",
    "asking": "等你回答",
    "done": "完成",
    "failed": "失败",
    "skipped": "跳过",
    "cancelled": "已取消",
    "unknown": "不确定：是否已生效？",
    "triaging": "正在读请求",
    "planning": "已有计划",
    "reviewing": "等你批准",
    "paused": "已暂停",
    "replanning": "重新计划中",
    "reporting": "正在写报告",
    "partly_done": "部分完成",
    "answered": "已回答",
    "more": "……还有 {count} 个",
    "head_running": "{count} 个运行中",
    "head_waiting": "{count} 个等你",
    "head_failed": "{count} 个失败",
    "review": "这个计划等你批准。",
    "degraded": "没有得到可用的计划；什么都没有运行。",
    "hash": "哈希 {hash}",
    "approve": "运行这个计划吗？y = 是，n = 拒绝，e = 编辑，c 文字 = 要求修改，回车 = 暂不：",
    "approve_only": "批准这个计划吗？y = 是，回车 = 暂不：",
    "approved": "已批准",
    "rejected": "已拒绝：什么都没有运行",
    "not_now": "没有批准：什么都没有运行",
    "changed": "修改后的计划：",
    "question": "问题 {name}：{text}",
    "by_program": "由程序“{name}”回答",
    "answer": "你的回答（回车 = 稍后）：",
    "waits": "运行在等你：",
    "then": "然后：",
    "edit_again": "再打开一次吗？Y = 是，n = 保留原来的计划：",
    "kept": "你写的内容保存在 {path}",
    "unchanged": "没有改动",
    "stopping": "正在停止：已开始的调用可以结束。再按 Ctrl-C 取消运行。",
    "detached": "已脱离。继续运行：",
    "cancelling": "正在取消……",
    "watching": "正在跟随另一个进程的运行。如果那个进程已经不在：",
    "go_on": "继续运行：",
    "paused_now": "已暂停。继续运行：",
    "no_runs": "没有任何运行",
    "schedule_is": "它将无人值守地运行，{timing}；接下来：",
    "schedule_ask": "到这些时间就无人值守地运行这个计划吗？y = 是，回车 = 暂不：",
    "schedule_or_once": "保存为定时任务吗？y = 是，o = 只现在运行一次，回车 = 暂不：",
    "schedule_waits": "没有你对这个计划的批准，不会定时运行：",
    "schedule_kept": "已保存为定时任务 {name}；由下面的命令按时运行：",
    "no_model": "没有可用来计划的语言模型：没有密钥，没有服务器，本机也没有模型。",
    "fetch": "现在获取吗？[Y/n] ",
    "without_model": "先按规则进行；以后可用 `plansmith model pull` 获取模型",
}


def words_for(locale: str) -> Words:
    """The words of a locale; English where we speak none of it."""
    return CHINESE if locale.lower().startswith("zh") else ENGLISH


def own_locale(environment: Mapping[str, str] | None = None) -> str:
    """The person's language as the environment tells it, such as `zh-CN`."""
    given = os.environ if environment is None else environment
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    found = next((given[name] for name in names if given.get(name)), "en")
    return found.partition(".")[0].replace("_", "-")

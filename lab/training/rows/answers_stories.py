"""Statements with more than a value: reasons, rules, tasks, decisions, changes, lists."""

from __future__ import annotations

from random import Random
from typing import Final

from lab.training.rows import answers_phrases as phrases
from lab.training.rows import answers_words as words
from lab.training.rows.answers_statements import (
    Builder,
    Question,
    Statement,
    Subject,
    day,
    money,
    number,
    person,
    upper,
)
from lab.training.rows.answers_words import Language, Pair

_IN_WORDS: Final = (
    Pair("two", "两"),
    Pair("three", "三"),
    Pair("four", "四"),
    Pair("five", "五"),
    Pair("six", "六"),
)


def listed(items: list[str], language: Language) -> str:
    """Joins items as a sentence does."""
    if language == "zh":
        return f"{'、'.join(items[:-1])}和{items[-1]}" if len(items) > 1 else items[0]
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def _lists(items: list[Pair]) -> Pair:
    return Pair(
        listed([each.en for each in items], "en"), listed([each.zh for each in items], "zh")
    )


def reason(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """Why something happened."""
    happened, asked, chinese = rng.choice(phrases.HAPPENINGS)
    why = rng.choice(phrases.REASONS)
    say = Pair(
        rng.choice(
            (
                f"{upper(happened)} because {why.en}.",
                f"Because {why.en}, {happened}.",
                f"{upper(why.en)}; therefore {happened}.",
                f"{upper(happened)}. The reason: {why.en}.",
            )
        ),
        rng.choice(
            (
                f"由于{why.zh}，{chinese}。",
                f"{chinese}，因为{why.zh}。",
                f"{chinese}，原因是{why.zh}。",
                f"{why.zh}，因此{chinese}。",
            )
        ),
    )
    ask = Pair(
        rng.choice(
            (f"Why {asked}?", f"What is the reason that {happened}?", f"how come {happened}?")
        ),
        rng.choice((f"为什么{chinese}？", f"{chinese}的原因是什么？", f"怎么会{chinese}？")),
    )
    answer = Pair(f"{upper(happened)} because {why.en}.", f"{chinese}，因为{why.zh}。")
    return Statement(
        happened, say, (Question(ask, answer),), Pair(f"why {happened}", f"为什么{chinese}")
    )


def rule(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """Whether something is allowed."""
    be, what, how, chinese = rng.choice(phrases.RULES)
    allowed = rng.random() < 0.5
    neither = "" if allowed else "not "
    may = "可以" if allowed else "不可以"
    say = Pair(
        rng.choice(
            (
                f"{upper(what)} {be} {neither}{how}.",
                f"Please note: {what} {be} {neither}{how}.",
                f"According to the rules {what} {be} {neither}{how}.",
            )
        ),
        rng.choice((f"{may}{chinese}。", f"请注意：{may}{chinese}。", f"按规定，{may}{chinese}。")),
    )
    yes, shi = ("Yes", "可以") if allowed else ("No", "不可以")
    answer = Pair(f"{yes}, {what} {be} {neither}{how}.", f"{shi}，{may}{chinese}。")
    ask = Pair(
        rng.choice((f"{upper(be)} {what} {how}?", f"Does it say whether {what} {be} {how}?")),
        rng.choice((f"可以{chinese}吗？", f"能不能{chinese}？", f"是否允许{chinese}？")),
    )
    unknown = Pair(f"whether {what} {be} {how}", f"是否可以{chinese}")
    plainly = Pair(f"{upper(what)} {be} {neither}{how}.", f"{may}{chinese}。")
    return Statement(f"{what} {how}", say, (Question(ask, answer),), unknown, plainly=plainly)


def task(rng: Random, _subject: Subject, language: Language) -> Statement:
    """Who does what until when."""
    who, deed, at = person(rng, language), rng.choice(phrases.DEEDS), day(rng)
    say = Pair(
        rng.choice(
            (
                f"{who} will {deed.en} by {at.en}.",
                f"{who} has to {deed.en} by {at.en}.",
                f"To do for {who}: {deed.en} (by {at.en})",
                f"{who}: {deed.en}, due {at.en}",
            )
        ),
        rng.choice(
            (
                f"{who}负责在{at.zh}前{deed.zh}。",
                f"{who}需在{at.zh}之前{deed.zh}。",
                f"待办：{who}，{deed.zh}（{at.zh}前）",
            )
        ),
    )
    answer = Pair(f"{who} will {deed.en} by {at.en}.", f"{who}负责在{at.zh}前{deed.zh}。")
    questions = (
        Question(
            Pair(
                rng.choice((f"Who will {deed.en}?", f"Who has to {deed.en}?")),
                rng.choice((f"谁负责{deed.zh}？", f"由谁{deed.zh}？")),
            ),
            Pair(f"{who} will {deed.en}.", f"{who}负责{deed.zh}。"),
        ),
        Question(
            Pair(
                rng.choice((f"What does {who} have to do?", f"What is {who}'s task?")),
                rng.choice((f"{who}要做什么？", f"{who}的任务是什么？")),
            ),
            answer,
        ),
        Question(
            Pair(f"By when does {who} have to {deed.en}?", f"{who}什么时候之前要{deed.zh}？"),
            Pair(f"{who} has to {deed.en} by {at.en}.", f"{who}要在{at.zh}前{deed.zh}。"),
        ),
    )
    # The whole task stands for the statement in summaries; the questions pick parts of it.
    return Statement(
        deed.en,
        say,
        (Question(questions[1].ask, answer), questions[0], questions[2]),
        Pair(f"who has to {deed.en}", f"谁负责{deed.zh}"),
    )


def decision(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """What was decided."""
    topic, done, about, chinese = rng.choice(phrases.DECISIONS)
    say = Pair(
        rng.choice(
            (
                f"It was decided to {done}.",
                f"Decision: {done}.",
                f"After some discussion about {topic} we agreed to {done}.",
                f"All were in favour: we {done}.",
            )
        ),
        rng.choice(
            (f"会议决定{chinese}。", f"决议：{chinese}。", f"讨论{about}后，大家同意{chinese}。")
        ),
    )
    ask = Pair(
        rng.choice(
            (
                f"What was decided about {topic}?",
                f"What did they decide on {topic}?",
                f"decision on {topic}?",
            )
        ),
        rng.choice(
            (f"关于{about}作了什么决定？", f"{about}的事怎么定的？", f"{about}最后决定怎么办？")
        ),
    )
    answer = Pair(f"It was decided to {done}.", f"决定{chinese}。")
    unknown = Pair(f"what was decided about {topic}", f"关于{about}的决定")
    return Statement(topic, say, (Question(ask, answer),), unknown)


def choice(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """Which of two was taken, and why."""
    taken, other = rng.sample(words.COMPANIES, 2)
    better = rng.choice((("cheaper", "更便宜"), ("faster", "更快"), ("closer", "更近")))
    say = Pair(
        rng.choice(
            (
                f"We chose {taken} over {other} because {taken} is {better[0]}.",
                f"{taken} was preferred to {other}, being {better[0]}.",
            )
        ),
        f"我们选择了{taken}而不是{other}，因为{taken}{better[1]}。",
    )
    told = Pair(
        f"{taken} was chosen because it is {better[0]}.", f"选择了{taken}，因为它{better[1]}。"
    )
    questions = (
        Question(
            Pair(
                rng.choice(
                    ("Which company was chosen?", "Which supplier did we take?", "Who got the job?")
                ),
                rng.choice(("选了哪家公司？", "最后选择了哪家供应商？", "哪一家中标了？")),
            ),
            told,
        ),
        Question(
            Pair(
                f"Which is {better[0]}, {taken} or {other}?", f"{taken}和{other}哪家{better[1]}？"
            ),
            Pair(f"{taken} is {better[0]} than {other}.", f"{taken}比{other}{better[1]}。"),
        ),
    )
    return Statement(
        "chosen company", say, questions, Pair("which company was chosen", "选了哪家公司")
    )


def change(rng: Random, subject: Subject, _language: Language) -> Statement:
    """An amount that rose or fell."""
    noun = subject.owns(rng.choice(words.MONEY))
    before, after = money(rng), money(rng)
    say = Pair(
        rng.choice(
            (
                f"The {noun.en} changed from {before.en} to {after.en}.",
                f"The {noun.en} is now {after.en}; before it was {before.en}.",
            )
        ),
        rng.choice(
            (
                f"{noun.zh}由{before.zh}变为{after.zh}。",
                f"{noun.zh}现在是{after.zh}，以前是{before.zh}。",
            )
        ),
    )
    told = Pair(
        f"The {noun.en} changed from {before.en} to {after.en}.",
        f"{noun.zh}由{before.zh}变为{after.zh}。",
    )
    questions = (
        Question(Pair(f"How did the {noun.en} change?", f"{noun.zh}有什么变化？"), told),
        Question(
            Pair(f"What is the {noun.en} now?", f"{noun.zh}现在是多少？"),
            Pair(f"The {noun.en} is now {after.en}.", f"{noun.zh}现在是{after.zh}。"),
        ),
        Question(
            Pair(f"What was the {noun.en} before?", f"{noun.zh}以前是多少？"),
            Pair(f"Before, the {noun.en} was {before.en}.", f"{noun.zh}以前是{before.zh}。"),
        ),
    )
    return Statement(
        noun.en, say, questions, Pair(f"how the {noun.en} changed", f"{noun.zh}的变化")
    )


def state(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """How far something is."""
    what, how = rng.choice(phrases.OBJECTS), rng.choice(phrases.STATES)
    say = Pair(
        rng.choice((f"{upper(what.en)} is {how.en}.", f"Status of {what.en}: {how.en}")),
        rng.choice((f"{what.zh}{how.zh}。", f"{what.zh}：{how.zh}")),
    )
    ask = Pair(
        rng.choice(
            (
                f"What is the status of {what.en}?",
                f"How far is {what.en}?",
                f"what about {what.en}?",
            )
        ),
        rng.choice((f"{what.zh}进展如何？", f"{what.zh}的状态是什么？", f"{what.zh}怎么样了？")),
    )
    answer = Pair(f"{upper(what.en)} is {how.en}.", f"{what.zh}{how.zh}。")
    unknown = Pair(f"what the status of {what.en} is", f"{what.zh}的状态")
    return Statement(what.en, say, (Question(ask, answer),), unknown)


def manual(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """How something is done."""
    deed, how, chinese, way = rng.choice(phrases.MANUAL)
    digits = number(rng).en
    how, way = how.format(n=digits), way.format(n=digits)
    say = Pair(
        rng.choice((f"To {deed}, {how}.", f"How to {deed}: {how}.")),
        rng.choice((f"要{chinese}，请{way}。", f"{chinese}：{way}。")),
    )
    ask = Pair(
        rng.choice((f"How do I {deed}?", f"How can one {deed}?", f"what must I do to {deed}")),
        rng.choice((f"怎么{chinese}？", f"如何{chinese}？", f"{chinese}要怎么做？")),
    )
    answer = Pair(f"To {deed}, {how}.", f"要{chinese}，请{way}。")
    return Statement(deed, say, (Question(ask, answer),), Pair(f"how to {deed}", f"如何{chinese}"))


def attendance(rng: Random, _subject: Subject, language: Language) -> Statement:
    """Who was there and who was not."""
    names = list(dict.fromkeys(person(rng, language) for _ in range(rng.randrange(4, 8))))
    away, there = names[0], names[1:]
    number_word = _IN_WORDS[len(there) - 2]
    there_en, there_zh = listed(there, "en"), listed(there, "zh")
    say = Pair(
        rng.choice(
            (
                f"Present: {', '.join(there)}. Absent: {away}.",
                f"Attendees: {', '.join(there)}\nExcused: {away}",
                f"{there_en} took part; {away} was excused.",
            )
        ),
        rng.choice(
            (
                f"出席：{'、'.join(there)}。缺席：{away}。",
                f"参会人员：{'、'.join(there)}\n请假：{away}",
                f"{there_zh}参加了会议，{away}请假。",
            )
        ),
    )
    told = Pair(f"{there_en} attended.", f"{there_zh}参加了会议。")
    counted = Pair(
        f"{upper(number_word.en)} people attended: {there_en}.",
        f"{number_word.zh}人参加：{there_zh}。",
    )
    asked = rng.choice(there)
    questions = (
        Question(
            Pair(
                rng.choice(
                    ("Who attended the meeting?", "Who was there?", "who took part", "attendees?")
                ),
                rng.choice(("谁参加了会议？", "参会的有哪些人？", "都有谁出席？", "参会人员名单")),
            ),
            told,
        ),
        Question(
            Pair(
                rng.choice(("Who was absent?", "Who was missing?", "Who did not come?")),
                rng.choice(("谁缺席了？", "谁没有来？", "谁请假了？")),
            ),
            Pair(f"{away} was absent.", f"{away}缺席。"),
        ),
        Question(Pair("How many people attended?", "有几个人参加？"), counted),
        Question(
            Pair(f"Was {asked} there?", f"{asked}参加了吗？"),
            Pair(f"Yes, {asked} attended.", f"是的，{asked}参加了。"),
        ),
        Question(
            Pair(f"Did {away} attend?", f"{away}来了吗？"),
            Pair(f"No, {away} was absent.", f"没有，{away}缺席。"),
        ),
    )
    return Statement("attendance", say, questions, Pair("who attended", "谁参加了会议"))


def packing(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """What has to be brought."""
    items = rng.sample(phrases.ITEMS, rng.randrange(2, 6))
    all_of = _lists(items)
    say = Pair(
        rng.choice(
            (f"Please bring: {', '.join(each.en for each in items)}.", f"Bring {all_of.en}.")
        ),
        rng.choice((f"请携带：{'、'.join(each.zh for each in items)}。", f"需要带{all_of.zh}。")),
    )
    ask = Pair(
        rng.choice(("What do I have to bring?", "what should we bring along", "What to bring?")),
        rng.choice(("需要带什么？", "要携带哪些东西？", "带什么去？")),
    )
    answer = Pair(f"You have to bring {all_of.en}.", f"需要带{all_of.zh}。")
    return Statement("packing", say, (Question(ask, answer),), Pair("what to bring", "需要带什么"))


def agenda(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """What was talked about."""
    topics = rng.sample(phrases.TOPICS, rng.randrange(2, 5))
    all_of = _lists(topics)
    say = Pair(
        rng.choice((f"Agenda: {', '.join(each.en for each in topics)}.", f"Topics: {all_of.en}.")),
        rng.choice((f"议程：{'、'.join(each.zh for each in topics)}。", f"议题：{all_of.zh}。")),
    )
    ask = Pair(
        rng.choice(
            ("What was on the agenda?", "Which topics were discussed?", "what was it about")
        ),
        rng.choice(("议程有哪些？", "讨论了哪些议题？", "会议讨论了什么")),
    )
    answer = Pair(f"The topics were {all_of.en}.", f"议题有{all_of.zh}。")
    return Statement("agenda", say, (Question(ask, answer),), Pair("what the topics were", "议题"))


def contact(rng: Random, _subject: Subject, language: Language) -> Statement:
    """How to reach somebody."""
    who = person(rng, language)
    handle = rng.choice(("info", "office", "team", "help", "sales", "contact"))
    site = rng.choice(("alder.example", "brook.example", "lumen.example", "yuanjing.example"))
    phone = f"{rng.randrange(200, 999)}-{rng.randrange(1000, 9999)}"
    mail = f"{handle}{rng.randrange(2, 99)}@{site}"
    say = Pair(
        rng.choice(
            (
                f"You can reach {who} at {phone} or {mail}.",
                f"Contact: {who}, phone {phone}, {mail}",
                f"Questions go to {who} ({mail}, {phone}).",
            )
        ),
        rng.choice(
            (
                f"可通过{phone}或{mail}联系{who}。",
                f"联系人：{who}，电话{phone}，邮箱{mail}",
                f"有问题请找{who}（{mail}，{phone}）。",
            )
        ),
    )
    questions = (
        Question(
            Pair(
                rng.choice((f"What is {who}'s phone number?", f"how can I call {who}?")),
                rng.choice((f"{who}的电话是多少？", f"{who}的电话号码")),
            ),
            Pair(f"{who}'s phone number is {phone}.", f"{who}的电话是{phone}。"),
        ),
        Question(
            Pair(
                rng.choice((f"What is {who}'s email address?", f"email of {who}?")),
                rng.choice((f"{who}的邮箱是什么？", f"怎么给{who}写邮件？")),
            ),
            Pair(f"{who}'s email address is {mail}.", f"{who}的邮箱是{mail}。"),
        ),
    )
    return Statement("contact", say, questions, Pair("how to reach the office", "联系方式"))


STORIES: Final[tuple[Builder, ...]] = (
    reason, rule, task, decision, choice, change, state, manual, attendance, packing, agenda,
    contact,
)  # fmt: skip

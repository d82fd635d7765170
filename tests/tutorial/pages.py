"""What a reader types on a page of the tutorial, and what the page shows as the output.

pages.py PAGE LANGUAGE FOLDER writes the blocks of a language as block_1.h, block_2.h, …"""
import pathlib
import re
import shlex
import sys
from dataclasses import dataclass, field

TREE = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Command:
    text: str
    shown: list = field(default_factory=list)  # lines of output


def text_of(page):
    return (TREE / "docs" / "tutorial" / page).read_text(encoding="utf-8")


def blocks(page):
    """Language and text of each block of code; "" for a fence without a language, "indented" for four spaces."""
    language, lines = None, []
    for line in [*text_of(page).splitlines(), "end"]:
        if language is None and line.startswith("```"):
            language = line[3:]
        elif language not in (None, "indented") and line != "```":
            lines.append(line)
        elif language is None and line.startswith("    ") and not lines:
            language, lines = "indented", [line[4:]]
        elif language == "indented" and line.startswith("    "):
            lines.append(line[4:])
        elif language is not None:
            yield language, "\n".join(lines)
            language, lines = None, []


def complete(text):
    """Whether the shell would not wait for another line."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not text.endswith("\\")


def session(text):
    """Commands behind a prompt, each with its output."""
    found = []
    for line in text.splitlines():
        if found and not complete(found[-1].text):
            found[-1].text += "\n" + line
        elif line.startswith("$ "):
            found.append(Command(line[2:]))
        elif found:
            found[-1].shown.append(line)
        elif re.match(r"\S", line):
            found.append(Command("", [line]))  # output of the command before the block
    return found


def commands(page):
    found = []
    for language, text in blocks(page):
        if language == "indented":
            found.append(Command(text))
        elif language == "python":
            found.append(Command(f"python3 - <<'END'\n{text}\nEND"))
        elif language == "":
            first, *others = session(text)
            if first.text:
                found.append(first)
            else:
                found[-1].shown += first.shown
            found += others
    return found


if __name__ == "__main__":
    page, wanted, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate((text for language, text in blocks(page) if language == wanted), 1):
        (folder / f"block_{number}.h").write_text(text + "\n")

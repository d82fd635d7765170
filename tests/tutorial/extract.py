"""extract.py PAGE TREE OUT: writes the files that a page of the tutorial adds to TREE, and the changed copies of those that it edits, to OUT.

A line of one path in backticks and a colon names the file of the blocks behind it: ```cpp is a new file, ```diff an edit."""
import pathlib
import re
import sys

NAMED = re.compile(r"`([\w./-]+)`:\n(.*?)(?=^`[\w./-]+`:$|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(cpp|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    (fedgrab run .*)$", re.MULTILINE)


def edited(text, diff, name):
    """With the lines of `diff` changed, which must stand in `text` once."""
    lines = diff.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
    if text.count(before) != 1:
        sys.exit(f"{name}: the tutorial changes lines that are there {text.count(before)} times:\n{before}")
    return text.replace(before, after)


def files(page, tree):
    """Path to text."""
    texts = {}
    for name, section in NAMED.findall(page):
        for kind, block in BLOCK.findall(section):
            if kind == "cpp":
                texts[name] = block
            else:
                texts[name] = edited(texts.get(name) or (tree / name).read_text(), block, name)
    return texts


def commands(page):
    return COMMAND.findall(page)


if __name__ == "__main__":
    page, tree, out = map(pathlib.Path, sys.argv[1:])
    for name, text in files(page.read_text(), tree).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)

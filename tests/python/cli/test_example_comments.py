"""Tests how the comments with an example call of a kernel (# nkisim: x=f32[128,512]) are found in a
file.
"""

import ast

from nkisim.tools.example_call import comments

TEXT = '''# nkisim: x=1
s = """
# nkisim: x=2
"""
def f():
    # nkisim: x=3
    t = f"""
    # nkisim: x={s}
    """
    if t:
        g("""first
# nkisim: x=4
last""", [
    # nkisim: x=5
        ])
    y = 1  # nkisim: x=6
    #nkisim:x=7
class C:
    "one line"
    # nkisim: x=8 --seed 3
'''


def test_comments_within_texts_are_none():
    assert comments(TEXT, ast.parse(TEXT)) == {1: "x=1", 6: "x=3", 14: "x=5", 17: "x=7", 20: "x=8 --seed 3"}

"""Names that deceive their readers, each with what is shown instead; and names that only look suspicious to a program."""

DECEPTIVE = {
    "Rechnung\u202efdp.exe": "Rechnung\\u202efdp.exe",
    "a\u2066b\u2069.txt": "a\\u2066b\\u2069.txt",
    "in\u200bvoice.pdf": "in\\u200bvoice.pdf",
    "\ufeffreport.txt": "\\ufeffreport.txt",
    "soft\u00adhyphen": "soft\\u00adhyphen",
    "mark\u200f.txt": "mark\\u200f.txt",
    "word\u2060joiner": "word\\u2060joiner",
    "filler\u3164.txt": "filler\\u3164.txt",
    "line\u2028end": "line\\u2028end",
    # A joiner has to join.
    "report\u200d.pdf": "report\\u200d.pdf",
    "\u200creport": "\\u200creport",
    "a\u200d\u200db": "a\\u200d\\u200db",
    "1\u200c2": "1\\u200c2",
    "plain\ufe0f.txt": "plain\\ufe0f.txt",
    "tag\U000e0041.txt": "tag\\udb40\\udc41.txt",
}
HONEST = [
    "plain name.txt",
    "می\u200cخواهم.pdf",
    "क्\u200dष.txt",
    "അവന്\u200d.txt",
    "👨\u200d👩\u200d👧\u200d👦.jpg",
    "👩🏽\u200d💻.png",
    "❤\ufe0f\u200d🔥.png",
    "🙂\u200d↔\ufe0f.png",
    "1\ufe0f\u20e3 first.txt",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f.svg",
    "葛\U000e0100飾区.txt",
    "ábc Ελλάδα 日本 עברית العربية",
    "Screenshot at 1.00.00\u202fPM.png",
]

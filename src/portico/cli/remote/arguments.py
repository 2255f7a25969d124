"""The commands that talk to a gateway: their arguments, options and help texts."""

from portico.cli.console.output import JSON
from portico.cli.console.parser import Command, Exclusive, Group, Paths, argument, flag, one_of, option, whole_number
from portico.cli.remote.command import runs

MAX_JOBS = 64
_PATTERNS = "A path can be a pattern with *, ? and []. Quote it; otherwise the shell expands it to local files."


_LOGIN = (
    argument("url", "URL", optional=True, help="The gateway's URL. Default: PORTICO_URL, or the last one used."),
    option("-u", "--user", metavar="NAME", help="The Web User. Default: the last one used, or a prompt."),
    flag("--password-stdin", help="Read the password from standard input."),
    flag("--key-stdin", help="Read an API key from standard input, and save it instead of signing in."),
    Exclusive("--password-stdin", "--key-stdin"),
    option("--ca", metavar="FILE", help="The gateway's certificate, if it is self-signed."),
)

_LONG = (
    flag("-l", "--long", help="Show sizes and times."),
    flag("-h", "--human", help="Show sizes like 1.2 GB; implies -l."),
)
_LS = (
    Paths("[PATH …]", {"PATH": "A folder, a file, or a pattern. Default: the root."}, at_least=0),
    *_LONG,
    flag("-R", "--recursive", help="List everything below, with full paths."),
)

_FIND = (
    Paths("[PATH …]", {"PATH": "The folder to search. Default: the root."}, at_least=0),
    option("--name", metavar="TEXT", help="Find names that contain this text, or match this pattern with *, ? and []."),
    flag("--match-case", help="Match upper and lower case exactly."),
    option(
        "--type",
        metavar="TYPE",
        help="Find only files (f), folders (d), or files whose content type starts like this, such as "
        "image/ or text/csv.",
    ),
    option("--larger", metavar="SIZE", help="Find files of at least this size, like 500MB or 10GiB."),
    option("--smaller", metavar="SIZE", help="Find files of at most this size."),
    option("--newer", metavar="AGE", help="Find files modified since then: an age like 7d, or a date."),
    option("--older", metavar="AGE", help="Find files not modified since then."),
    *_LONG,
)

_PUT = (
    Paths(
        "SOURCE … TARGET",
        {
            "SOURCE": "A local file, a pattern, a folder (with -r), or - for standard input.",
            "TARGET": "The target folder or file on the gateway.",
        },
        at_least=2,
    ),
    flag("--rename", help="Keep both: if a name is taken, store the file under a free name and print that name."),
)

_GET = (
    Paths(
        "SOURCE … [TARGET]",
        {
            "SOURCE": "A file on the gateway, a pattern, or a folder (with -r).",
            "TARGET": "The local target folder or file, or - for standard output. Default: the current folder.",
        },
        at_least=1,
    ),
    flag("--no-resume", help="Don't resume partial downloads of an earlier run, and keep none when interrupted."),
    flag("--continue", hidden=True, help="Accepted for compatibility; this is the default."),
    flag("--zip", help="Download the sources as one ZIP. TARGET is the ZIP file or its folder."),
)

_SYNC = (
    argument(
        "direction",
        "up|down",
        choices=("up", "down"),
        convert=one_of(("up", "down"), "{} is not a direction; use 'up' or 'down'."),
        missing="the direction is missing; write 'up' or 'down', then the source and the target",
        help="up: to the gateway; down: from the gateway.",
    ),
    Paths(
        "SOURCE TARGET",
        {
            "SOURCE": "The folder to copy from: local with 'up', on the gateway with 'down'.",
            "TARGET": "The folder to change: on the gateway with 'up', local with 'down'.",
        },
        at_least=2,
    ),
    flag("--delete", help="Delete files and folders from the target that aren't in the source."),
)

_MKDIR = (
    Paths("PATH …", {"PATH": "The folder to create."}, at_least=1),
    flag("-p", dest="parents", help="Accepted for compatibility; parent folders are always created."),
)

_RM = (
    Paths("PATH …", {"PATH": "A file, a folder, or a pattern."}, at_least=1),
    flag("--permanent", help="Delete permanently, without the trash."),
)

_SOURCE_AND_TARGET = Paths(
    "SOURCE … TARGET",
    {
        "SOURCE": "A file, a folder, or a pattern.",
        "TARGET": "The folder to put the sources into, or the new path of a single source.",
    },
    at_least=2,
)
_RECURSIVE = flag("-r", "--recursive", help="Include folders and everything in them.")
_NO_CLOBBER = flag("-n", "--no-clobber", help="Never replace existing files.")
_FORCE = flag("-f", "--force", help="Also transfer files that are up to date.")
_CONTINUE_ON_ERROR = flag(
    "-c", "--continue-on-error", dest="goes_on", help="Continue after errors, and list them all at the end."
)
_DRY_RUN = flag("--dry-run", help="Show what would be done, without doing it.")
_QUIET = flag("-q", "--quiet", help="Don't show a progress bar or summary.")
_CHECKSUM = flag(
    "--checksum", help="Compare the content of files of equal size. The gateway may have to read its files."
)

_UPLOAD = (
    flag("--no-resume", help="Don't resume partial uploads of an earlier run, and keep none when interrupted."),
    flag("--no-times", help="Don't keep the modification times of uploaded files."),
    flag("--verify", help="Verify all files by SHA-256 digest. By default, only files up to 8 MiB are verified."),
)

_SYNC_TRANSFER = (
    flag("--no-resume", help="Don't resume partial transfers of an earlier run, and keep none when interrupted."),
    flag("--no-times", help="Don't keep the modification times of transferred files."),
    flag(
        "--verify",
        help="Verify files by SHA-256 digest: with 'up', all files instead of only those up to 8 MiB; "
        "with 'down', all files with a digest recorded on the gateway.",
    ),
)

_JOBS = option(
    "-j",
    "--jobs",
    metavar="N",
    convert=whole_number("--jobs", MAX_JOBS),
    default=8,
    help="Concurrent requests. Default: 8.",
)
PROFILE = option("--profile", metavar="NAME", help="The saved sign-in to use. Default: PORTICO_PROFILE, or 'default'.")

_TRANSFER = (_RECURSIVE, _NO_CLOBBER, _FORCE, _CONTINUE_ON_ERROR, _DRY_RUN, _QUIET, _CHECKSUM, _JOBS, JSON, PROFILE)

_JOB_ID = argument("id", "ID", help="The job's id, as shown in the list.")
_TRASH_ITEMS = Paths("ITEM …", {"ITEM": "An id from 'trash list', or a path for its most recent item."}, at_least=1)

_TRASH_RESTORE = (
    flag("--rename", help="If the name is taken, keep both, as name (1).ext."),
    flag("--replace", help="If the name is taken, replace the existing item, which goes to the trash."),
)

_TRASH_EMPTY = flag("-y", "--yes", help="Don't ask for confirmation.")

_KINDS = ("download", "request", "both")

_SHARE_ADD = (
    argument("path", "PATH", help="The file or folder to share."),
    option(
        "--kind",
        metavar="KIND",
        default="download",
        choices=_KINDS,
        convert=one_of(_KINDS, f"--kind must be one of {', '.join(_KINDS)}."),
        help="What guests can do: download, request (send files without seeing any), or both.",
    ),
    option("--title", metavar="TEXT", help="A title shown to guests."),
    option("--note", metavar="TEXT", help="A message to guests."),
    flag("--password-stdin", help="Read a password for the link from standard input."),
    option("--expires", metavar="WHEN", help="When the link expires: a time from now, like 7d or 12h, or a date."),
    option("--max-downloads", metavar="N", help="How many downloads are allowed."),
    option("--max-uploads", metavar="N", help="How many files guests can send."),
    option("--max-bytes", metavar="SIZE", help="How much guests can send in total, like 10GiB."),
    option("--types", metavar="LIST", help="Which file types guests can send, like .pdf,image/*."),
    flag("--no-name", help="Don't ask senders for their name."),
    flag("--folder-per-sender", help="Make a separate folder for each sender."),
)

_SHARE_ID = argument("id", "ID", help="The link's id, as shown by 'portico share list'.")
_RECEIPT_KEY = option(
    "-o", "--output", metavar="FILE", help="Also write the key to a file, or to standard output with -."
)

_RECEIPT_VERIFY = (
    argument("file", "FILE", help="The file as it was uploaded or downloaded."),
    argument(
        "receipt",
        "RECEIPT",
        help="A file with the receipt or with the response that contains it, or - for standard input.",
    ),
    option(
        "--key", metavar="FILE", help="The gateway's key, as a JWK set. Default: the keys fetched with 'receipt key'."
    ),
)


COMMANDS = {
    "login": Command(
        runs("signin", "login"),
        "Sign in and stay signed in. The token is saved in the system's key ring, or in a file "
        "only you can read. You are prompted for the password, which is not saved.",
        (*_LOGIN, PROFILE),
        "Example:\n  portico login https://files.example.com --user anna",
    ),
    "logout": Command(runs("signin", "logout"), "Sign out, locally and on the gateway.", (PROFILE,)),
    "whoami": Command(
        runs("signin", "whoami"), "Show who is signed in, where, and with which rights.", (JSON, PROFILE)
    ),
    "ls": Command(
        runs("listing", "ls"),
        "List folders; by default the root.",
        (*_LS, JSON, PROFILE),
        f"{_PATTERNS}\n\nExamples:\n  portico ls -l /reports\n  portico ls '/reports/*.csv'",
        short_help=False,
    ),
    "find": Command(
        runs("listing", "search"),
        "Find files and folders by name, type, size or age.",
        (*_FIND, JSON, PROFILE),
        "Examples:\n  portico find /reports --name '*.pdf'\n  portico find --type image/ --larger 10MB --newer 7d -h",
        short_help=False,
    ),
    "put": Command(
        runs("uploads", "put"),
        "Upload files and folders. Files that are already up to date on the gateway are skipped.",
        (*_PUT, *_TRANSFER, *_UPLOAD, Exclusive("--no-clobber", "--rename")),
        "TARGET is a folder if that folder exists, if TARGET ends with a slash, or if there are "
        "several sources. A folder keeps its name in TARGET; FOLDER/. means its content.\n\n"
        "Examples:\n  portico put report.pdf /reports/\n  portico put -r photos /backup/",
    ),
    "get": Command(
        runs("downloads", "get"),
        "Download files and folders. Local files that are already up to date are skipped.",
        (*_GET, *_TRANSFER),
        "A folder keeps its name in TARGET; FOLDER/. means its content.\n\n"
        "Examples:\n  portico get /reports/2026.csv\n  portico get -r /backup/photos .\n"
        "  portico get --zip /backup/photos",
        defaults={"no_times": False, "verify": False},
    ),
    "sync": Command(
        runs("sync", "sync"),
        "Make a folder on the gateway like a local one (up), or a local folder like one on the gateway (down).",
        (*_SYNC, _DRY_RUN, _CONTINUE_ON_ERROR, _QUIET, _CHECKSUM, *_SYNC_TRANSFER, _JOBS, JSON, PROFILE),
        "Examples:\n  portico sync up photos /backup/photos\n  portico sync down --delete /backup/photos photos",
        defaults={"no_clobber": False, "force": False, "rename": False},
    ),
    "cat": Command(
        runs("downloads", "cat"),
        "Write files to standard output, one after the other.",
        (Paths("PATH …", {"PATH": "A file on the gateway, or a pattern."}, at_least=1), PROFILE),
        f"{_PATTERNS}\n\nExample:\n  portico cat '/logs/*.txt' | sort",
    ),
    "mkdir": Command(
        runs("changes", "mkdir"),
        "Create folders and their parents. Existing folders are fine.",
        (*_MKDIR, JSON, PROFILE),
        "Example:\n  portico mkdir /reports/2026",
    ),
    "mv": Command(
        runs("changes", "mv"),
        "Move or rename files and folders on the gateway.",
        (_SOURCE_AND_TARGET, _NO_CLOBBER, _CONTINUE_ON_ERROR, JSON, PROFILE),
        f"{_PATTERNS}\n\nExample:\n  portico mv '/reports/2025*' /archive/",
    ),
    "cp": Command(
        runs("changes", "cp"),
        "Copy files and folders on the gateway.",
        (_SOURCE_AND_TARGET, _RECURSIVE, _NO_CLOBBER, _CONTINUE_ON_ERROR, JSON, PROFILE),
        f"{_PATTERNS}\n\nExample:\n  portico cp -r /reports /archive/",
    ),
    "rm": Command(
        runs("changes", "rm"),
        "Remove files and empty folders on the gateway.",
        (*_RM, _RECURSIVE, _CONTINUE_ON_ERROR, _DRY_RUN, JSON, PROFILE),
        f"{_PATTERNS}\n\nExample:\n  portico rm -r --dry-run /old",
    ),
    "jobs": Group(
        "List and cancel long-running jobs on the gateway: moves, copies, deletions, restores and "
        "removals from the trash.",
        {
            "list": Command(runs("jobs", "list_jobs"), "List your jobs, newest first.", (JSON, PROFILE)),
            "cancel": Command(
                runs("jobs", "cancel_job"), "Cancel a job, or remove a finished one from the list.", (_JOB_ID, PROFILE)
            ),
        },
        "Example:\n  portico jobs list",
    ),
    "trash": Group(
        "Restore deleted or replaced files, or remove them permanently.",
        {
            "list": Command(
                runs("trash", "list_trash"),
                "List the items in the trash, newest first: id, time, size, path.",
                (JSON, PROFILE),
            ),
            "restore": Command(
                runs("trash", "restore_items"),
                "Restore items to their original place.",
                (_TRASH_ITEMS, *_TRASH_RESTORE, JSON, PROFILE),
                "Examples:\n  portico trash restore /reports/2026.csv\n"
                "  portico trash restore --replace 019d8a2b4c5d6e7f80911223",
            ),
            "remove": Command(runs("trash", "remove_items"), "Remove items permanently.", (_TRASH_ITEMS, PROFILE)),
            "empty": Command(
                runs("trash", "empty_trash"), "Remove everything in the trash permanently.", (_TRASH_EMPTY, PROFILE)
            ),
        },
    ),
    "share": Group(
        "Share files and folders with people who have no account.",
        {
            "add": Command(
                runs("shares", "add"),
                "Create a share link and print its URL, which is shown only once.",
                (*_SHARE_ADD, PROFILE, JSON),
                "Examples:\n"
                "  portico share add /reports/2026.pdf --expires 7d --max-downloads 1\n"
                "  portico share add /inbox --kind request --title 'Your documents' --folder-per-sender",
            ),
            "list": Command(runs("shares", "list_"), "List your links.", (PROFILE, JSON)),
            "address": Command(
                runs("shares", "address"),
                "Give a link a new URL and print it. The old URL stops working, even for guests who have opened it.",
                (_SHARE_ID, PROFILE, JSON),
            ),
            "end": Command(runs("shares", "end"), "End a link. It stops working for everyone.", (_SHARE_ID, PROFILE)),
            "log": Command(
                runs("shares", "log"), "Show who did what with a link, newest first.", (_SHARE_ID, PROFILE, JSON)
            ),
        },
    ),
    "receipt": Group(
        "Verify receipts, with which a gateway confirms what it stored.",
        {
            "key": Command(
                runs("receipts", "fetch_key"),
                "Fetch and save the gateway's key for receipts, so that you can verify receipts without the gateway.",
                (_RECEIPT_KEY, PROFILE),
            ),
            "verify": Command(
                runs("receipts", "verify_receipt"),
                "Check that the gateway signed a receipt and that the receipt belongs to a file. Nothing is sent.",
                (*_RECEIPT_VERIFY, JSON),
                "Needs the package cryptography: pip install 'portico-gateway[receipts]'.\n\n"
                "Example:\n"
                "  portico receipt key                                      # once\n"
                "  portico put --json report.pdf /reports/ > report.receipt\n"
                "  portico receipt verify report.pdf report.receipt         # without the gateway",
            ),
        },
    ),
}

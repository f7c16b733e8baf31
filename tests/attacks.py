"""What a submission may try: one cell each, run beside a softmax that is wrong.

`{canary}` is a file outside the sandbox, `{port}` a port on which the host
listens, `{root}` the course's folder. None may raise the score, bring the
canary's text out, reach the port, outlive its run or stop the batch.
"""

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def syscall(number, *arguments):
    words = ", ".join(map(str, (number, *arguments)))
    return f"{LIBC}assert libc.syscall({words}) == -1, 'it worked'\nprint('refused')"


FILES = {
    "reads the canary": "print(open('{canary}').read())",
    "reads it through another root": "print(open('/proc/1/root{canary}').read())",
    "reads it relatively": "import os\nos.chdir('/')\nprint(open('..' * 9 + '{canary}').read())",
    "looks for it everywhere": (
        "import os\nfor folder, _, names in os.walk('/'):\n"
        "    if 'canary' in names:\n        print(open(folder + '/canary').read())"
    ),
    "reads the password file": "print(open('/etc/shadow').read())",
    "reads the judge": "print(open('{root}/grader/judge.py').read())",
    "reads the solutions": "import glob\nprint([open(f).read() for f in glob.glob('{root}/solutions/*.py')])",
    "imports from the course's folder": "import sys\nsys.path.insert(0, '{root}')\nimport grader.judge",
    "opens the gradebook": "import sqlite3\nsqlite3.connect('{root}/gradebook.db').execute('select * from grade')",
    "reads home": "import pathlib\nprint([f.read_text() for f in pathlib.Path('/root').iterdir()])",
    "reads other processes": "import glob\nprint([open(f).read() for f in glob.glob('/proc/[0-9]*/environ')])",
    "writes to the system": "open('/usr/bin/owned', 'w')",
    "writes to the packages": "import numpy, os\nopen(os.path.dirname(numpy.__file__) + '/owned.py', 'w')",
    "writes to its stage": "import utils, os\nopen(os.path.dirname(utils.__file__) + '/check.py', 'w')",
    "writes to the root": "open('/owned', 'w')",
    "writes to the devices": "open('/dev/owned', 'w')",
    "writes the core pattern": "open('/proc/sys/kernel/core_pattern', 'w').write('|/bin/sh')",
    "makes a device": "import os, stat\nos.mknod('/tmp/disk', 0o666 | stat.S_IFBLK, os.makedev(8, 0))",
    "opens memory": "open('/dev/mem', 'rb').read(1)",
    "links out": "import os\nos.symlink('{canary}', '/tmp/link')\nprint(open('/tmp/link').read())",
    "fills the scratch folder": "f = open('/tmp/big', 'wb')\nwhile True:\n    f.write(b'x' * (1 << 20))",
    "fills it file by file": (
        "n = 0\nwhile True:\n    open(f'/tmp/{{n}}', 'wb').write(b'x' * (8 << 20))\n    n += 1"
    ),
    "fills shared memory": "f = open('/dev/shm/big', 'wb')\nwhile True:\n    f.write(b'x' * (1 << 20))",
    "makes ever more files": "n = 0\nwhile True:\n    open(f'/tmp/{{n}}', 'w').close()\n    n += 1",
}
PROCESSES = {
    "forks for ever": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "kills the first process": "import os\nos.kill(1, 9)\nprint('alive')",
    "kills everything": "import os\nos.kill(-1, 9)",
    "kills the grader": "import os\nos.kill({pid}, 9)",
    "leaves a process behind": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n    os._exit(0)"
    ),
    "starts many threads": (
        "import threading, time\nfor _ in range(5000):\n    threading.Thread(target=time.sleep, args=(60,)).start()"
    ),
    "becomes root": "import os\nos.setuid(0)\nprint(os.getuid())",
    "traces the first process": syscall(101, 16, 1, 0, 0),
    "writes another's memory": syscall(311, 1, 0, 0, 0, 0, 0),
    "takes another's files": syscall(438, 3, 0, 0),
    "makes a user namespace": syscall(272, "0x10000000"),
    "makes a mount namespace": syscall(56, "0x20011", 0, 0, 0, 0),
    "joins a namespace": f"import os\nfd = os.open('/proc/self/ns/net', os.O_RDONLY)\n{syscall(308, 'fd', 0)}",
    "mounts": syscall(165, "b'none'", "b'/tmp'", "b'tmpfs'", 0, 0),
    "loads a filter program": syscall(321, 0, 0, 0),
    "opens an io_uring": syscall(425, 8, 0),
    "opens a key ring": syscall(250, 0, -3, 0),
    "counts events": syscall(298, 0, 0, -1, -1, 0),
    "uses the other table": syscall("0x40000000 + 101", 16, 1, 0, 0),
    "writes to every open file": (
        "import os\nfor fd in range(3, 256):\n    try:\n        os.write(fd, b'score=1' * 99)\n    except OSError:\n        pass"
    ),
    "closes every open file": "import os\nos.closerange(0, 256)",
}
MEMORY = {
    "takes 8 GB": "x = bytearray(8 << 30)",
    "takes it bit by bit": "x = []\nwhile True:\n    x.append(bytearray(64 << 20))",
    "takes it in children": (
        "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n"
        "        x = bytearray(300 << 20)\n        time.sleep(60)\n        os._exit(0)\ntime.sleep(60)"
    ),
    "takes it nameless": syscall(319, "b'x'", 0),
    "takes it shared": syscall(29, 0, 1 << 31, 512),
    "recurses in C": "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()",
    "reads address 0": "import ctypes\nctypes.string_at(0)",
    "matches for ever": "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
}
NETWORK = {
    "connects to the host": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)",
    "sends to the host": "import socket\nsocket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port}))",
    "connects elsewhere": "import socket\nsocket.create_connection(('169.254.169.254', 80), 2)",
    "asks for a name": "import socket\nprint(socket.getaddrinfo('localhost.localdomain.invalid', 80))",
    "finds a socket file": "import socket\nsocket.socket(1).connect('/run/docker.sock')",
    "finds a nameless socket": "import socket\nsocket.socket(1).connect('\\0/tmp/.X11-unix/X0')",
    "looks for proxies": "import os\nprint({{k: v for k, v in os.environ.items() if 'proxy' in k.lower()}})",
}
OUTPUT = {
    "prints without end": "while True:\n    print('x' * 10**6)",
    "prints below Python": "import os\nwhile True:\n    os.write(1, b'x' * 10**6)",
    "announces 4 GB": "import os\nos.write(int(os.environ['ATTENTION_PIPE']), b'\\xff' * 4)",
    "floods the pipe": "from utils import mailbox\nwhile True:\n    mailbox.send(('answers', 'x' * 10**6))",
    "shows a script": "from IPython.display import HTML\nHTML('<script>alert(1)</script>')",
    "shows an endless picture": (
        "import io, numpy as np\nfrom PIL import Image as P\nfrom IPython.display import Image\n"
        "b = io.BytesIO()\nP.fromarray(np.zeros((9000, 9000), 'u1')).save(b, 'PNG')\nImage(b.getvalue())"
    ),
    "displays without end": "from IPython.display import display\nfor _ in range(10**6):\n    display('x' * 1000)",
}
IN_PROCESS = {
    "patches comparisons": "import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True",
    "patches the check": "import utils.check\nutils.check.collect = lambda *a, **k: []",
    "patches what is posted": (
        "from utils import mailbox\nmailbox.post = lambda name, answers: mailbox.send(('verdict', name, True, 1.0))"
    ),
    "patches the wire": "import utils.wire\nutils.wire.pack = lambda value: b'AFP1' + b'\\0' * 8",
    "turns cells into nothing": "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])",
    "drops asserts": (
        "import ast\nclass Drop(ast.NodeTransformer):\n    def visit_Assert(self, node):\n        return None\n"
        "get_ipython().ast_transformers.append(Drop())"
    ),
    "hides tracebacks": "get_ipython().showtraceback = lambda *a, **k: None",
    "answers with an agreeable object": (
        "class Yes(float):\n    def __eq__(self, other):\n        return True\n    __ne__ = __lt__ = lambda s, o: False\n"
        "softmax = lambda x, axis=-1: Yes(1)"
    ),
    "answers with an agreeable array": (
        "import numpy as np\nclass Yes(np.ndarray):\n    def __array_ufunc__(self, *a, **k):\n        return True\n"
        "softmax = lambda x, axis=-1: np.zeros(np.shape(x)).view(Yes)"
    ),
    "looks for the answers": (
        "import gc\nsoftmax = lambda x, axis=-1: next((o for o in gc.get_objects() "
        "if isinstance(o, np.ndarray) and o.shape == np.shape(x) and abs(o.sum() - 1) < 1e-9), x)"
    ),
    "looks up the stack": (
        "import sys\ndef softmax(x, axis=-1):\n    f = sys._getframe()\n    while f:\n"
        "        if 'wanted' in f.f_locals:\n            return f.f_locals['wanted']\n        f = f.f_back\n    return x"
    ),
    "imports a figure": "from utils.widgets.soft_lookup import *\nfrom utils.widgets.soft_lookup_static import *",
    "imports the reference": "from utils.reference.dictionary_lookup import softmax",
    "raises what is expected": "def softmax(x, axis=-1):\n    raise ValueError",
    "exits in the call": "import os\nsoftmax = lambda x, axis=-1: os._exit(0)",
    "answers later": (
        "import threading, time\nfrom utils import mailbox\ndef later():\n    time.sleep(1)\n"
        "    mailbox.send(('answers', 'softmax', 'softmax', []))\nthreading.Thread(target=later).start()"
    ),
    "removes the limit": "import utils.time_limit, contextlib\nutils.check.time_limit = lambda s: contextlib.nullcontext()",
    "asks a shell": "!cat {canary}",
    "asks another interpreter": "%%bash\ncat {canary}\nls {root}",
    "answers at exit": "import atexit\nfrom utils import mailbox\natexit.register(lambda: mailbox.send(('end',)))",
    "says it is done": "from utils import mailbox\nmailbox.send(('end',))",
}
# What aims at the submission that the same worker runs next.
LURKS = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n"
NEIGHBOURS = {
    "leaves files": (
        "import os\nfor folder in ('/tmp', '/dev/shm', os.environ['HOME']):\n"
        "    for name in ('numpy.py', 'sitecustomize.py', 'matplotlibrc', '.left'):\n"
        "        open(os.path.join(folder, name), 'w').write('raise SystemExit')"
    ),
    "leaves a start-up file": (
        "import os\nplace = os.environ['HOME'] + '/profile_default/startup'\nos.makedirs(place, exist_ok=True)\n"
        "open(place + '/0.py', 'w').write('softmax = None')"
    ),
    "leaves folders nobody may open": (
        "import os\nfor n in range(20):\n    os.makedirs(f'/tmp/{{n}}/x')\n    os.chmod(f'/tmp/{{n}}', 0)"
    ),
    "leaves a deep folder": "import os\nfor _ in range(3000):\n    os.mkdir('/tmp/d' if _ == 0 else 'd')\n    os.chdir('/tmp/d' if _ == 0 else 'd')",
    "leaves a link to follow": "import os\nos.symlink('/stage', '/tmp/stage')\nos.symlink('/', '/dev/shm/root')",
    "leaves a process that writes files": LURKS + "        open('/tmp/left', 'w').write('x')",
    "leaves a process that kills": LURKS
    + (
        "        for name in os.listdir('/proc'):\n            if name.isdigit() and int(name) > 2:\n"
        "                try:\n                    os.kill(int(name), 9)\n                except OSError:\n                    pass"
    ),
    "leaves many that fork": "import os\nfor _ in range(20):\n    if os.fork() == 0:\n        while True:\n            try:\n                os.fork()\n            except OSError:\n                pass",
    "leaves stopped processes": "import os, signal\nfor _ in range(20):\n    if os.fork() == 0:\n        os.kill(os.getpid(), signal.SIGSTOP)",
    "stops the worker": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)",
    "ends the worker": "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)",
    "sends it every signal": "import os\nfor n in range(1, 65):\n    try:\n        os.kill(os.getppid(), n)\n    except OSError:\n        pass",
    "takes away its limits": (
        "import os, resource\nfor which in range(16):\n    try:\n        resource.prlimit(os.getppid(), which, (0, 0))\n"
        "        print('it worked')\n    except (OSError, ValueError):\n        pass"
    ),
    "takes away its processors": "import os\nos.sched_setaffinity(os.getppid(), {{0}})\nprint('it worked')",
    "makes it slow": "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)\nprint('it worked')",
    "makes it idle": "import os\nos.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))\nprint('it worked')",
    "offers it to the memory killer": "import os\nopen(f'/proc/{{os.getppid()}}/oom_score_adj', 'w').write('1000')\nprint('it worked')",
    "reads the worker's memory": "import os\nopen(f'/proc/{{os.getppid()}}/mem', 'rb').read(1)\nprint('it worked')",
    "writes the worker's memory": "import os\nopen(f'/proc/{{os.getppid()}}/mem', 'r+b')\nprint('it worked')",
    "takes the worker's files": (
        "import os\nfor n in range(64):\n    try:\n        os.open(f'/proc/{{os.getppid()}}/fd/{{n}}', os.O_RDWR)\n"
        "        print('it worked')\n    except OSError:\n        pass"
    ),
    "speaks on the worker's socket": (
        "import os, socket, stat\nfor n in range(64):\n    try:\n        if stat.S_ISSOCK(os.fstat(n).st_mode):\n"
        "            socket.socket(fileno=n).send(b'clean')\n            print('it worked')\n    except OSError:\n        pass"
    ),
    "patches what is shared": (
        "import builtins, numpy as np, utils.check, utils.wire\nnp.exp = np.max = None\nutils.check.collect = None\n"
        "utils.wire.pack = None\nbuiltins.len = None"
    ),
    "changes what is inherited": (
        "import os, signal, resource, gc\nos.environ['OMP_NUM_THREADS'] = '64'\nos.umask(0o777)\nos.chdir('/')\n"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))"
    ),
    "keeps its pipe": LURKS
    + "        from utils import mailbox\n        mailbox.send(('answers', 'softmax', 'softmax', []))",
    "ends too soon and goes on": (
        "from utils import mailbox\nmailbox.send(('end',))\nimport time\nwhile True:\n"
        "    open('/tmp/left', 'w').write('x')\n    mailbox.send(('answers', 'softmax', 'softmax', []))"
    ),
    "moves in open files": (
        "import os\nfor n in range(3, 64):\n    try:\n        os.lseek(n, 7, os.SEEK_SET)\n    except OSError:\n        pass"
    ),
    "takes every port": (
        "import os, socket, time\nif os.fork() == 0:\n    kept = []\n    for port in range(1024, 65536):\n        try:\n"
        "            kept.append(socket.create_server(('127.0.0.1', port)))\n        except OSError:\n            pass\n    time.sleep(600)"
    ),
}
ATTACKS = FILES | PROCESSES | MEMORY | NETWORK | OUTPUT | IN_PROCESS | NEIGHBOURS

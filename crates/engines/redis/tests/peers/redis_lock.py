"""redis-py's own lock, driven by lines: a command on standard input, an answer on standard output."""

import sys

import redis
from redis.exceptions import LockError

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
lock = None


def acquire(name, ttl_ms, wait_ms):
    """Takes the lock `name` for `ttl_ms`, and waits for it for at most `wait_ms`."""
    global lock
    lock = client.lock(
        name,
        timeout=int(ttl_ms) / 1000,
        sleep=0.02,
        blocking=int(wait_ms) > 0,
        blocking_timeout=int(wait_ms) / 1000,
    )
    return "held" if lock.acquire() else "busy"


def extend(ttl_ms):
    lock.extend(int(ttl_ms) / 1000, replace_ttl=True)
    return "extended"


def release():
    lock.release()
    return "released"


def owned():
    return "yes" if lock.owned() else "no"


COMMANDS = {"acquire": acquire, "extend": extend, "release": release, "owned": owned}

print("ready", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    try:
        answer = COMMANDS[word](*rest)
    except LockError as error:
        answer = f"lost {type(error).__name__}"
    print(answer, flush=True)

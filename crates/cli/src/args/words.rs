//! What stands below the flags in help texts.

pub(super) const EXAMPLES: &str = "\
Examples:
  bramah run deploy/prod -- ./deploy.sh         wait for the lock, run, release
  bramah run cron/mail -n -E 0 -- ./mail.sh     skip it if another has it
  bramah run migrate -w 10m --reason \"rev 42\" -- ./migrate up
  bramah elect worker/billing -- ./worker       run while elected
  bramah run report/pdf --slots 3 -- ./render   three at a time
  bramah lock deploy/prod --ttl 4h --reason \"freeze, ask ana\"
  bramah ls                                     who holds what
  bramah show deploy/prod                       who holds it, who waits, since when and why

Environment:
  BRAMAH_ENGINE      the store's URL, if --engine is not given; a place for passwords
  BRAMAH_PROFILE     a profile of the config file, if --profile is not given
  BRAMAH_CONFIG      the config file, if --config is not given
  BRAMAH_NAMESPACE   put before every name, if --namespace is not given
  BRAMAH_TTL         a ttl, if --ttl is not given
  BRAMAH_WAIT        how long to wait, if neither -n nor -w is given
  BRAMAH_HANDLE      a handle for renew and unlock, if --handle is not given
  BRAMAH_LOG         error, warn, info, debug or trace: the library's log on stderr

Exit codes:
  64 usage, unsupported or conflicting   65 corrupt store   69 store unreachable   74 cannot write
  75 busy   77 denied   79 lost   80 cannot be ended   124 over time   126 cannot execute
  127 not found   128+n ended by signal n
  run, elect: else the command's own.   Questions: 0 yes, 1 no.";

pub(super) const RUN: &str = "\
The command runs without a shell, in a process group of its own (in ours at the head of a
pipeline on a terminal). stdin is passed on; SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2
and SIGWINCH are forwarded. Its environment has
  BRAMAH_LOCK    the name             BRAMAH_ID      this hold, as listed by show
  BRAMAH_FENCE   the fencing token: let what you write to refuse a smaller one than it has seen
  BRAMAH_OWNER   who we say we are    BRAMAH_STORE   the store's URL without secrets
  BRAMAH_TTL_MS  how long the store keeps the lock of a process that it does not hear of
  BRAMAH_SOCKET  where `bramah check` asks
  BRAMAH_HELD    the ids of this hold and those around it: a run inside refuses to wait for them
There is a fence if the lock is exclusive (not with -s or --slots above 1). With several locks the names, ids and fences stand in the order of the names, parted by commas.

SIGTERM, SIGINT and SIGQUIT end the whole run: as soon as the command has ended, the lock is
released, whatever --min-hold says. If the command has ended before and the lock is still held for
--min-hold, every forwarded signal but SIGWINCH releases it. In both cases the exit code is the
command's.

If the lock runs out while the command runs, its whole group gets SIGTERM and then SIGKILL,
before the store may hand the lock on, and bramah exits with 79. If bramah is killed, a guardian
process does the same at once; if it is frozen, in time before the ttl is over. On file: nothing
runs out by time: a frozen bramah keeps the lock and its command runs on. A lock that somebody
breaks is handed on at once, and the command is ended when bramah learns of it: at once where the
store can tell (redis: without a cluster, etcd:, zookeeper:), else within a third of the ttl, and
then with a tenth of the ttl as grace at the most.

A command that became another user (setuid, sudo) may be out of reach of signals. If it has to end
and cannot be ended, bramah says so at once with the processes that are left, and exits with 80:
after a loss at once, while the command runs on; after --max-run when the command has ended, and
until then the lock is held.

Examples:
  bramah run deploy/prod --reason \"hotfix 1.4.2\" -- ./deploy.sh
  bramah run cron/mail -n -E 0 --min-hold 50s --max-run 10m -- ./mail.sh
  bramah run backup -w 1h30m -c 'pg_dump shop > shop.sql'
  bramah run -l account/7 -l account/9 -- ./transfer 7 9";

pub(super) const ELECT: &str = "\
Campaigns for as long as it takes, runs the command while it leads, ends it when the leadership
is lost, and campaigns again. When the command ends by itself, its exit code is ours. The
command's environment is that of `bramah run`.

Example:
  bramah elect worker/billing --ttl 15s --value 10.0.0.7:8080 -- ./billing-worker";

pub(super) const LOCK: &str = "\
The handle is printed to stdout and gives power over the lock: whoever has it can renew and
unlock. Nothing renews the lock by itself: it ends after its ttl. Without the handle it can be
ended with `bramah break`. Stores that tie a lock to a living process refuse this.

Example:
  handle=$(bramah lock deploy/prod --ttl 4h --reason \"freeze: failover, ask ana\")
  bramah unlock deploy/prod --handle \"$handle\"";

pub(super) const HANDLED: &str = "\
A lock that is not held by this handle any more (it ran out, was released or broken): renew exits
with 79, unlock with 1.";

pub(super) const WAIT: &str = "\
Exits with 0 when nobody holds it, with 75 when the time is up. Nothing is taken: somebody else
may be quicker.

Example:
  bramah wait deploy/prod -w 10m && echo \"the deploy is over\"";

pub(super) const WATCH: &str = "\
On a terminal the lines are for people, with times in UTC; elsewhere, and with --json, each is a
JSON object.

First what is held and who waits now (event \"held\", \"waiting\"), then what happens: acquired,
released, expired, broken, waiting, gave_up, changed (a leader's value). Where the store sees a
process end, its hold is released. Ends with the first signal, or when nobody reads. Changes that
follow each other faster than they can be looked at may be seen as one.";

pub(super) const REVOKE: &str = "\
A wish and no more: the lock is held until its holder releases it. `bramah run` says that it was
asked, and passes a signal on to its command if it was told so (--on-revoke); in a program it is
Guard::asked, with Curator the listener of makeRevocable. Told at once where the store can push,
else with the holder's next renewal. Whoever renews a lock that was left behind is told, too.
Refused in the session mode of a database, in Redisson's layout, and for holders that are other
programs.
Exit code 1 if nobody holds it.

Example:
  bramah run report --on-revoke term -- ./long-report
  bramah revoke report         # elsewhere, or with Curator's Revoker";

pub(super) const BREAK: &str = "\
The lock goes to the next in line at once, and the fence rises: what the old holder still writes
is refused by whatever checks fences. The old holder learns at once where the store can tell (redis:
without a cluster, etcd:, zookeeper:), else with its next renewal (a third of its ttl). Somebody who
waits goes to the end of the line. Exit code 1 if there is no such hold or place.

Example:
  bramah show deploy/prod      # says h3f09a4c2b1d7
  bramah break deploy/prod --id h3f09a4c2b1d7 --reason \"ci-7 was taken down\"";

pub(super) const CHECK: &str = "\
Prints for how many milliseconds the lock is certain to be held without another renewal, or
\"held\" where that does not depend on time (file:). The store is not asked: a break shows when
bramah has learnt of it. Exit code 0 if it is held, 1 if not, 64 outside of a command run by
bramah.";

pub(super) const INIT: &str = "\
What is there is kept: it can be run again at any time, also by two at once. Stores that need no
preparation refuse it. The user needs the right to create tables and functions; those who lock
need SELECT, INSERT, UPDATE and DELETE on the tables.

Examples:
  bramah init --engine postgres://db.example/app
  bramah init --engine postgres:// --dry-run | psql app";

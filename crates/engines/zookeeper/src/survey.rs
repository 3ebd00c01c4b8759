//! What stands in ZooKeeper, as core shows it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bramah_core::{
    Bell, Break, Broken, Claim, ClaimId, Fence, Health, LineView, Look, Name, PlaceState, PlaceView, Result,
    Scope, SessionId, Survey, Wait, Wake, Woken,
};
use tokio::time::timeout;
use zookeeper_client::{Client, Error as Said, Stat};

use crate::{
    base::or_none,
    change::Change,
    desk::Desk,
    line::{Form, Verdict, judge},
    names::{self, Kid, LEASES, LOCKS, Mark, OWN},
    record::{self, Told},
};

/// How often it is looked for those who go on watching several locks, and whether anybody still watches.
const WATCHING: Duration = Duration::from_millis(200);

/// The longest time that they trust that.
const TRUST: Duration = Duration::from_secs(2);

/// The longest text of another program that is shown.
const SHOWN: usize = 200;

/// The children of the folders of one lock.
#[derive(Default)]
struct Found {
    own: Vec<String>,
    locks: Vec<String>,
    leases: Vec<String>,
}

impl Found {
    fn has_claims(&self) -> bool {
        [&self.own, &self.locks, &self.leases].into_iter().flatten().any(|node| Kid::parse(node).is_some())
    }
}

/// One node that was read.
struct Read<'n> {
    kid: Kid<'n>,
    told: Option<Told>,
    data: Vec<u8>,
    stat: Stat,
}

/// Looks, and goes on looking for those who want to know of changes.
pub(crate) async fn survey(desk: Arc<Desk>, scope: Scope, look: Look) -> Result<Survey> {
    let lines = lines(&desk, &scope).await?;
    let wake = match look {
        Look::Once | Look::Glance => Wake::never(),
        Look::Watching => {
            let (bell, wake) = Wake::pair();
            desk.base.office.spawn(watch(desk.clone(), scope, sight(&lines), bell));
            wake
        }
    };
    Ok(Survey { lines, unreadable: Vec::new(), wake, sleep: TRUST })
}

/// What one look is told apart from another by.
type Sight = Vec<(Name, Vec<(ClaimId, bool, Option<Fence>, Arc<str>)>, Option<ClaimId>)>;

fn sight(lines: &[LineView]) -> Sight {
    let place = |place: &PlaceView| {
        let (is_held, fence) = match place.state {
            PlaceState::Held { fence, .. } => (true, fence),
            PlaceState::Waiting => (false, None),
        };
        (place.claim.id, is_held, fence, place.claim.note.clone())
    };
    let line = |line: &LineView| {
        (
            line.name.clone(),
            line.places.iter().map(place).collect(),
            line.broken.as_ref().map(|broken| broken.id),
        )
    };
    lines.iter().map(line).collect()
}

/// Looks until something is different, or nobody wants to know. One lock is watched, several are polled.
async fn watch(desk: Arc<Desk>, scope: Scope, first: Sight, bell: Bell) {
    while !bell.is_deaf() {
        // Before the look, so that no change falls between.
        let changed = match &scope {
            Scope::Exact(name) => Change::of(&desk, name).await.ok(),
            Scope::Under(_) | Scope::All => None,
        };
        if changed.is_none() {
            tokio::time::sleep(WATCHING).await;
        }
        match lines(&desk, &scope).await {
            Ok(lines) if sight(&lines) == first => {}
            _ => {
                bell.ring(Woken::Ask);
                return;
            }
        }
        if let Some(mut changed) = changed {
            while !bell.is_deaf() && timeout(WATCHING, &mut changed).await.is_err() {}
        }
    }
}

async fn lines(desk: &Desk, scope: &Scope) -> Result<Vec<LineView>> {
    let client = desk.client().await?;
    let explain = |said: Said| desk.base.explain("a survey", &said);
    client.sync(desk.base.root()).await.map_err(explain)?;
    let found = match scope {
        Scope::Exact(name) => {
            BTreeMap::from([(name.clone(), exact(desk, &client, name).await.map_err(explain)?)])
        }
        Scope::Under(_) | Scope::All => walk(desk, &client, scope).await.map_err(explain)?,
    };
    let mut lines = Vec::new();
    for (name, found) in found {
        // Most folders have nobody in them.
        if !matches!(scope, Scope::Exact(_)) && !found.has_claims() {
            continue;
        }
        let line = line(desk, &client, &name, found).await.map_err(explain)?;
        // One that was asked for by name shows how it was last ended also when nobody is there.
        let is_worth_it =
            !line.places.is_empty() || (matches!(scope, Scope::Exact(_)) && line.broken.is_some());
        lines.extend(Some(line).filter(|_| is_worth_it));
    }
    Ok(lines)
}

async fn exact(desk: &Desk, client: &Client, name: &Name) -> Result<Found, Said> {
    let own = or_none(client.list_children(&desk.base.folder(name)).await)?;
    with_permits(client, &desk.base.folder(name), own).await
}

/// The children of a lock's folder, with those of a semaphore's folders.
async fn with_permits(client: &Client, folder: &str, own: Vec<String>) -> Result<Found, Said> {
    let inner = |leaf: &str| own.iter().any(|node| node == leaf).then(|| format!("{folder}/{leaf}"));
    let (locks, leases) = (inner(LOCKS), inner(LEASES));
    let locks = locks.as_ref().map(|folder| client.list_children(folder));
    let leases = leases.as_ref().map(|folder| client.list_children(folder));
    let locks = match locks {
        Some(listed) => or_none(listed.await)?,
        None => Vec::new(),
    };
    let leases = match leases {
        Some(listed) => or_none(listed.await)?,
        None => Vec::new(),
    };
    Ok(Found { own, locks, leases })
}

/// Goes through all folders in the scope.
async fn walk(desk: &Desk, client: &Client, scope: &Scope) -> Result<BTreeMap<Name, Found>, Said> {
    let chroot = desk.base.config.chroot.as_str();
    let mut found = BTreeMap::new();
    // Paths without the chroot; the root is empty.
    let mut level = match scope {
        Scope::Under(name) => {
            let mut paths = vec![names::path(name), names::path_above(name)];
            paths.dedup();
            paths
        }
        Scope::Exact(_) | Scope::All => vec![String::new()],
    };
    while !level.is_empty() {
        let paths: Vec<String> = level.iter().map(|at| format!("{chroot}{at}")).collect();
        let listed: Vec<_> = paths
            .iter()
            .map(|path| client.list_children(if path.is_empty() { "/" } else { path.as_str() }))
            .collect();
        let mut next = Vec::new();
        for ((at, path), listed) in level.iter().zip(&paths).zip(listed) {
            let children = match or_none(listed.await) {
                // What we may not see is none of ours.
                Err(Said::NoAuth) => continue,
                children => children?,
            };
            let is_reserved =
                |node: &str| at.is_empty() && (node == OWN || (node == "zookeeper" && chroot.is_empty()));
            let folders = children.iter().filter(|node| Kid::parse(node).is_none() && !is_reserved(node));
            next.extend(folders.map(|node| format!("{at}/{node}")));
            if let Some(name) = names::name(at) {
                found.insert(name, with_permits(client, path, children).await?);
            }
        }
        level = next;
    }
    Ok(found)
}

async fn read<'n>(
    client: &Client,
    folder: &str,
    name: &Name,
    kids: Vec<Kid<'n>>,
) -> Result<Vec<Read<'n>>, Said> {
    let paths: Vec<String> = kids.iter().map(|kid| format!("{folder}/{}", kid.node)).collect();
    let asked: Vec<_> = paths.iter().map(|path| client.get_data(path)).collect();
    let mut reads = Vec::with_capacity(kids.len());
    for (kid, answer) in kids.into_iter().zip(asked) {
        match answer.await {
            Ok((data, stat)) => reads.push(Read { told: record::decode(name, &data), kid, data, stat }),
            // It has left since.
            Err(Said::NoNode | Said::NoAuth) => {}
            Err(said) => return Err(said),
        }
    }
    Ok(reads)
}

async fn line(desk: &Desk, client: &Client, name: &Name, found: Found) -> Result<LineView, Said> {
    let folder = desk.base.folder(name);
    let record_at = desk.base.broken(name);
    let record = client.get_data(&record_at);
    let wall_ms = i64::try_from(desk.base.clock.wall_us() / 1000).unwrap_or(i64::MAX);
    let since = |at: i64| Duration::from_millis(u64::try_from(wall_ms.saturating_sub(at)).unwrap_or(0));
    let in_line = |form: Form| names::kids(&found.own, |mark| form.has(mark));
    let (mutex, latch, shared) = (in_line(Form::Mutex), in_line(Form::Latch), in_line(Form::ReadWrite));
    let mutex = if mutex.is_empty() { latch } else { mutex };
    let form = match (mutex.is_empty(), shared.is_empty()) {
        (false, _) => Form::Mutex,
        (true, false) => Form::ReadWrite,
        (true, true) => Form::Permits,
    };
    let (held, waiting) = match form {
        Form::Mutex | Form::Latch | Form::ReadWrite => {
            (Vec::new(), if form == Form::Mutex { mutex } else { shared })
        }
        Form::Permits => (
            names::kids(&found.leases, |mark| mark == Mark::Lease),
            names::kids(&found.locks, |mark| mark == Mark::Lock),
        ),
    };
    let line_folder = if form == Form::Permits { format!("{folder}/{LOCKS}") } else { folder.clone() };
    let waiting = read(client, &line_folder, name, waiting).await?;
    let held = read(client, &format!("{folder}/{LEASES}"), name, held).await?;
    let told = |read: &Read| read.told.as_ref().map(|told| told.claim.capacity);
    let capacity = match form {
        Form::Mutex | Form::Latch => 1,
        Form::ReadWrite => bramah_core::line::WHOLE,
        Form::Permits => {
            let known = held.iter().chain(&waiting).find_map(told);
            known.unwrap_or_else(|| u32::try_from(held.len()).unwrap_or(u32::MAX).max(2))
        }
    };
    let mut places: Vec<PlaceView> = Vec::new();
    let permits = held.into_iter().map(|read| place(read, name, capacity, true, since));
    for permit in permits {
        // Several nodes of one claim are its permits.
        match places.iter_mut().find(|place| place.claim.id == permit.claim.id) {
            Some(first) if first.about.is_none() => *first = permit,
            Some(_) => {}
            None => places.push(permit),
        }
    }
    let kids: Vec<Kid> = waiting.iter().map(|read| read.kid).collect();
    for (index, read) in waiting.into_iter().enumerate() {
        let is_held = form != Form::Permits && judge(&kids, index) == Verdict::First;
        places.push(place(read, name, capacity, is_held, since));
    }
    // Readers that entered late hold beside those ahead of them; holders come first.
    places.sort_by_key(|place| matches!(place.state, PlaceState::Waiting));
    let broken =
        match record.await {
            Ok((data, stat)) => record::decode_break(&data)
                .map(|(id, cause): (ClaimId, Arc<Break>)| Broken { id, cause, ago: since(stat.mtime) }),
            Err(Said::NoNode | Said::NoAuth) => None,
            Err(said) => return Err(said),
        };
    Ok(LineView { name: name.clone(), capacity, places, broken })
}

fn place(
    read: Read,
    name: &Name,
    capacity: u32,
    is_held: bool,
    since: impl Fn(i64) -> Duration,
) -> PlaceView {
    let Read { kid, told, data, stat } = read;
    // A node in line is as old as its claim. A permit has a node of its own, which is created at its grant by us, and by
    // Curator while it may still have to wait; when its claim entered is not written down.
    let is_permit = kid.mark == Mark::Lease;
    let (age, held) = match (is_permit, told.is_some()) {
        (false, _) => (Some(since(stat.ctime)), None),
        (true, true) => (None, Some(since(stat.ctime))),
        (true, false) => (None, None),
    };
    let (claim, raised, about) = match told {
        Some(Told { claim, fence, about }) => (claim, fence, about),
        None => (foreign(&kid, name, capacity, &data), None, None),
    };
    let minted = || u64::try_from(stat.czxid).ok().map(Fence::new);
    let fence = raised.or_else(minted).filter(|_| claim.is_exclusive());
    let state = if is_held { PlaceState::Held { fence, since: held } } else { PlaceState::Waiting };
    PlaceView {
        claim: Arc::new(claim),
        about: about.map(Arc::new),
        state,
        age,
        left: None,
        // A session's last sign of life is known to the server that it is connected to, and to nobody who asks.
        renewed: None,
        health: Health::Unknown,
    }
}

/// The claim of another program: its id is that of its node.
fn foreign(kid: &Kid, name: &Name, capacity: u32, data: &[u8]) -> Claim {
    let session = SessionId::from_bits(kid.uuid().unwrap_or(0));
    let note: String =
        String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    Claim {
        id: ClaimId { session, seq: kid.number().parse().unwrap_or(0) },
        name: name.clone(),
        capacity,
        weight: if kid.mark == Mark::Write { capacity } else { 1 },
        wait: Wait::Line,
        again: true,
        floor: None,
        ttl: Duration::ZERO,
        lease: None,
        note: note.into(),
    }
}

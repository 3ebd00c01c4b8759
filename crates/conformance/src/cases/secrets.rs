//! A password of a URL and the handle of a lock are never shown: by Debug, in errors, or in what is logged.

use std::{error::Error as _, fmt::Debug, net::TcpListener, sync::Arc};

use bramah_core::{
    About, Claim, ClaimId, Detached, Engine, Error, ErrorKind, Exit, Keep, Look, Opening, Scope, Session,
    SessionId, Wait,
};

use crate::{
    bench::{Bench, LONG},
    case::{Failure, Outcome, cases, ensure, ensure_eq},
    trace::Search,
};

cases! { "secrets":
    nothing_that_is_in_use_shows_the_password_or_the_handle,
    an_unreachable_server_is_named_without_the_password [Url],
    a_wrong_password_is_not_shown [Url],
}

/// The parts of a URL.
struct Url<'u> {
    scheme: &'u str,
    password: Option<&'u str>,
    hosts: &'u str,
    rest: &'u str,
}

impl<'u> Url<'u> {
    fn of(url: &'u str) -> Outcome<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| Failure::new("the address is no url"))?;
        let (place, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (login, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let password = login.split_once(':').map(|(_, password)| password);
        Ok(Self { scheme, password, hosts, rest })
    }

    /// The same with another login, at other addresses.
    fn with(&self, password: &str, hosts: &str) -> String {
        format!("{}://somebody:{password}@{hosts}{}", self.scheme, self.rest)
    }
}

/// A password that is nowhere else.
fn made_up() -> String {
    format!("sesame{:016x}", fastrand::u64(..))
}

/// The same number of addresses, none of which anybody listens at.
fn refusing(hosts: &str) -> Outcome<String> {
    let listeners: Vec<TcpListener> =
        hosts.split(',').map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let addresses: Vec<String> =
        listeners.iter().map(|one| Ok(one.local_addr()?.to_string())).collect::<std::io::Result<_>>()?;
    Ok(addresses.join(","))
}

/// In one line and in many.
fn shown(thing: &dyn Debug) -> String {
    format!("{thing:?}\n{thing:#?}")
}

/// An error with its causes, in every form.
fn told(error: &Error) -> String {
    let mut text = format!("{error} {error:#} {}", shown(error));
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {}", shown(&error)));
        cause = error.source();
    }
    text
}

#[track_caller]
fn unseen(secret: &str, what: &str, text: &str) -> Outcome {
    if text.contains(secret) {
        // The text itself would show it once more, in the log of a build.
        let hidden = text.replace(secret, "<SECRET>");
        let (before, _) = hidden.split_once("<SECRET>").unwrap_or_default();
        let tail: String = before.chars().rev().take(120).collect::<Vec<_>>().into_iter().rev().collect();
        return Err(Failure::new(format!("{what} shows it: ...{tail}<SECRET>")));
    }
    Ok(())
}

#[track_caller]
fn unlogged(secret: &str, search: Option<&Search>) -> Outcome {
    match search.map(Search::found).unwrap_or_default().first() {
        Some(record) => unseen(secret, "the log", record),
        None => Ok(()),
    }
}

/// Opens, takes, leaves and looks, with whatever can be shown on the way.
async fn nothing_that_is_in_use_shows_the_password_or_the_handle(bench: Bench) -> Outcome {
    let password = match bench.target().url() {
        Some((url, _)) => Url::of(url)?.password.map(str::to_owned),
        None => None,
    };
    // Where there is none, what is looked for is nowhere.
    let password = password.unwrap_or_else(made_up);
    let search = Search::begin(&password);
    let engine = bench.client().await?;
    unseen(&password, "the engine", &shown(&engine))?;
    let builder = Session::builder(engine.clone()).ttl(LONG).store("conformance");
    unseen(&password, "the builder of a session", &shown(&builder))?;
    let session = builder.open().await?;
    unseen(&password, "the session", &shown(&session))?;
    let mutex = session.mutex(bench.name("guarded"))?;
    unseen(&password, "the mutex", &shown(&mutex))?;
    let guard = mutex.lock().await?;
    unseen(&password, "the guard", &shown(&guard))?;
    unseen(&password, "the engine in use", &shown(&engine))?;
    let survey = engine.survey(&Scope::Exact(bench.name("guarded")), Look::Once).await?;
    unseen(&password, "the survey", &shown(&survey))?;
    guard.release().await;
    handle_is_kept(&bench, &engine).await?;
    let left = Detached::new(engine, bench.name("left"), ClaimId { session: SessionId::random()?, seq: 1 });
    unseen(&password, "a detached lock", &shown(&left))?;
    unlogged(&password, search.as_ref())
}

/// Below the faces, where the id is known before anything is sent.
async fn handle_is_kept(bench: &Bench, engine: &Arc<dyn Engine>) -> Outcome {
    let session = SessionId::random()?;
    let (handle, name) = (session.to_string(), bench.name("handle"));
    let search = Search::begin(&handle);
    let keep = if bench.target().is_bound() { Keep::Process } else { Keep::Nobody };
    let opening = Arc::new(Opening::new(session, LONG, keep, About::this_process()));
    unseen(&handle, "an opening", &shown(&opening))?;
    let ttl = engine.open(opening).await?;
    let claim = Arc::new(Claim {
        id: ClaimId { session, seq: 1 },
        name: name.clone(),
        capacity: 1,
        weight: 1,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl,
        lease: None,
        note: "".into(),
    });
    let standing = engine.claim(claim.clone()).await?;
    let asking = Arc::new(claim.asking());
    let renewal = engine.renew(session, [asking.clone()].into()).await?;
    ensure_eq!(renewal.gone, [], "what was lost at once");
    let survey = engine.survey(&Scope::Exact(name), Look::Once).await?;
    for (what, text) in [
        ("the engine", shown(engine)),
        ("a claim", shown(&claim)),
        ("a standing", shown(&standing)),
        ("a renewal", shown(&renewal)),
        ("a survey", shown(&survey)),
    ] {
        unseen(&handle, what, &text)?;
    }
    engine.withdraw(asking, Exit::Own).await?;
    engine.close(session).await?;
    unlogged(&handle, search.as_ref())
}

async fn an_unreachable_server_is_named_without_the_password(bench: Bench) -> Outcome {
    let Some((url, _)) = bench.target().url() else { return Err(Failure::new("there is no url")) };
    let url = Url::of(url)?;
    let secret = made_up();
    let error = tried(&bench, &secret, url.with(&secret, &refusing(url.hosts)?)).await?;
    let Some(error) = error else { return Err(Failure::new("a session was opened where nobody listens")) };
    ensure_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    Ok(())
}

async fn a_wrong_password_is_not_shown(bench: Bench) -> Outcome {
    let Some((url, _)) = bench.target().url() else { return Err(Failure::new("there is no url")) };
    let url = Url::of(url)?;
    let secret = made_up();
    // Some servers have no users, and let everybody in.
    tried(&bench, &secret, url.with(&secret, url.hosts)).await.map(drop)
}

/// Opens a session at a URL with a secret in it. The error, if there is one, without the secret.
async fn tried(bench: &Bench, secret: &str, url: String) -> Outcome<Option<Error>> {
    let Some((_, dial)) = bench.target().url() else { return Err(Failure::new("there is no url")) };
    ensure!(url.contains(secret), "the url has no secret to look for");
    let search = Search::begin(secret);
    let error = match dial(url).await {
        Err(error) => Some(error),
        Ok(engine) => {
            unseen(secret, "the engine", &shown(&engine))?;
            let builder = Session::builder(engine.clone()).ttl(LONG).store("conformance");
            unseen(secret, "the builder of a session", &shown(&builder))?;
            let left = Detached::new(
                engine.clone(),
                bench.name("left"),
                ClaimId { session: SessionId::random()?, seq: 1 },
            );
            unseen(secret, "a detached lock", &shown(&left))?;
            let opened = bench.soon("an answer to an open", builder.open()).await?;
            unseen(secret, "the engine after an attempt", &shown(&engine))?;
            opened.err()
        }
    };
    if let Some(error) = &error {
        unseen(secret, "an error", &told(error))?;
    }
    unlogged(secret, search.as_ref())?;
    Ok(error)
}

//! Databases and prefixes are worlds of their own.

use crate::rig::*;

async fn are_apart(layout: Layout, one: &str, other: &str) {
    let server = server(&[]);
    let (one, other) =
        (layout.url(&format!("{}{one}", server.url())), layout.url(&format!("{}{other}", server.url())));
    let (a, b, twin) = (open(&one, ms(3000)).await, open(&other, ms(3000)).await, open(&one, ms(3000)).await);
    let of_a = mutex(&a, "same").lock().await.unwrap();
    assert!(mutex(&twin, "same").try_lock().await.unwrap().is_none(), "the same lock is the same lock");
    let of_b = mutex(&b, "same").try_lock().await.unwrap().expect("it is another lock");
    for (session, guard) in [(&a, &of_a), (&b, &of_b)] {
        let line = session.inspect(&guard.name()).await.unwrap().unwrap();
        let tags: Vec<_> = line.places.iter().map(|place| place.claim.id.tag()).collect();
        assert_eq!(tags, [guard.tag()]);
        let all = session.survey(&bramah_core::Scope::All).await.unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
    }
    of_a.release().await;
    assert!(of_b.is_held() && of_b.confirm().await.unwrap());
    assert!(mutex(&twin, "same").try_lock().await.unwrap().is_some());
    of_b.release().await;
    for session in [a, b, twin] {
        assert!(session.close(PATIENCE).await.left.is_empty());
    }
    // KEYS sees one database only.
    let mut wire = server.wire().unwrap();
    for database in ["0", "1"] {
        wire.call(&["SELECT", database]).unwrap();
        let keys: Vec<_> = wire.call(&["KEYS", "*"]).unwrap().many().iter().map(|key| key.text()).collect();
        assert!(keys.iter().all(|key| key.ends_with("mark")), "{keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_databases_do_not_see_each_others_locks() {
    on_both(|layout| are_apart(layout, "/0", "/1")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_prefixes_do_not_see_each_others_locks() {
    on_both(|layout| are_apart(layout, "?prefix=one:", "?prefix=two:")).await;
}

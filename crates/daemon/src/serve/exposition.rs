//! Metrics in text form, compressed for clients that accept it: whole pages, and one that is so long that it is sent in parts.
//!
//! Invariants: nothing is compressed on a thread that serves others; of a page in parts there is no more in memory than two parts and
//! what they are made from, and that not for longer than [`Patience::page`], however slowly it is read; one part is made at a time; a page
//! that cannot be finished ends with an error, so that the client does not take it for the whole.

use std::io::{self, Write};
use std::iter::Peekable;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube_scheduler_api_types::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::reply::{self, Reply, ReplyBody};

const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
/// Long pages that are made or read at once.
const MAX_SCRAPES: usize = 4;
/// Compressed parts are at least this long, in bytes, if that takes no more than [`MAX_TEXTS`] parts of the text.
const MIN_PACKED: usize = 16 << 10;
const MAX_TEXTS: usize = 16;

/// Metrics in text form.
pub(super) async fn whole(asked: &HeaderMap, text: String) -> Reply {
    if !takes_gzip(asked) {
        return reply::typed(StatusCode::OK, METRICS_TYPE, text);
    }
    // If that fails, the text is still there.
    let text = Bytes::from(text);
    let to_pack = text.clone();
    let packed = spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&to_pack).and_then(|()| encoder.finish())
    });
    match packed.await {
        Ok(Ok(packed)) => marked_as_packed(reply::typed(StatusCode::OK, METRICS_TYPE, packed)),
        _ => reply::typed(StatusCode::OK, METRICS_TYPE, text),
    }
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let accepted = asked.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|part| {
        let mut parts = part.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0"))
    })
}

fn marked_as_packed(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    reply
}

/// How long things may take.
#[derive(Clone, Copy)]
struct Patience {
    /// Until there is a place for a scrape.
    place: Duration,
    /// Until its page has been read, but for the last two parts.
    page: Duration,
}

/// The long pages under way.
pub(super) struct Scrapes {
    places: Arc<Semaphore>,
    /// Whose part is made.
    turn: Arc<Semaphore>,
    patience: Patience,
}

impl Default for Scrapes {
    fn default() -> Self {
        let patience = Patience { place: Duration::from_secs(5), page: Duration::from_secs(60) };
        Self {
            places: Arc::new(Semaphore::new(MAX_SCRAPES)),
            turn: Arc::new(Semaphore::new(1)),
            patience,
        }
    }
}

impl Scrapes {
    /// Waits for a place; `None` if there is none for a while.
    pub(super) async fn begin(&self) -> Option<Scrape> {
        let place = self.places.clone().acquire_owned();
        let place = tokio::time::timeout(self.patience.place, place).await.ok()?.ok()?;
        let late_at = Instant::now() + self.patience.page;
        Some(Scrape { place, turn: self.turn.clone(), late_at })
    }
}

/// A place for a scrape of a long page.
pub(super) struct Scrape {
    place: OwnedSemaphorePermit,
    turn: Arc<Semaphore>,
    late_at: Instant,
}

impl Scrape {
    /// The reply with the text that these parts make up. The parts are made when they are needed, on a thread of their own.
    pub(super) async fn reply(
        self,
        asked: &HeaderMap,
        parts: impl Iterator<Item = String> + Send + 'static,
    ) -> io::Result<Reply> {
        let Self { place, turn, late_at } = self;
        let takes_gzip = takes_gzip(asked);
        let encoder = takes_gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        let page = Page { parts: boxed(parts), encoder, _place: place };
        let delivery = Delivery { page: Shelf::with(page), turn, late_at };
        let (first, is_last) = delivery.next().await?;
        let reply = if is_last {
            reply::typed(StatusCode::OK, METRICS_TYPE, first)
        } else {
            reply::with_body(StatusCode::OK, METRICS_TYPE, delivery.into_body(first))
        };
        Ok(if takes_gzip { marked_as_packed(reply) } else { reply })
    }
}

type Texts = Peekable<Box<dyn Iterator<Item = String> + Send>>;

fn boxed(parts: impl Iterator<Item = String> + Send + 'static) -> Texts {
    let parts: Box<dyn Iterator<Item = String> + Send> = Box::new(parts);
    parts.peekable()
}

/// A page that is being made.
struct Page {
    parts: Texts,
    /// For clients that take it compressed.
    encoder: Option<GzEncoder<Vec<u8>>>,
    _place: OwnedSemaphorePermit,
}

impl Page {
    /// The next part, and whether it is the last.
    fn next(&mut self) -> io::Result<(Bytes, bool)> {
        let Some(encoder) = &mut self.encoder else {
            let text = self.parts.next().unwrap_or_default();
            return Ok((text.into(), self.parts.peek().is_none()));
        };
        for text in self.parts.by_ref().take(MAX_TEXTS) {
            encoder.write_all(text.as_bytes())?;
            if encoder.get_ref().len() >= MIN_PACKED {
                break;
            }
        }
        let is_last = self.parts.peek().is_none();
        if is_last {
            encoder.try_finish()?;
        }
        Ok((std::mem::take(encoder.get_mut()).into(), is_last))
    }
}

/// Where a page is between its parts, and from where it is taken when it is late.
struct Shelf(Arc<Mutex<Option<Page>>>);

impl Shelf {
    fn with(page: Page) -> Self {
        Self(Arc::new(Mutex::new(Some(page))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Page>> {
        lock(&self.0)
    }

    fn take(&self) -> Option<Page> {
        self.lock().take()
    }
}

/// A page on its way to the client.
struct Delivery {
    page: Shelf,
    turn: Arc<Semaphore>,
    late_at: Instant,
}

impl Delivery {
    /// The next part, and whether it is the last.
    async fn next(&self) -> io::Result<(Bytes, bool)> {
        let turn = self.turn.clone().acquire_owned().await.map_err(io::Error::other)?;
        let mut page = self.page.take().ok_or_else(late)?;
        let made = spawn_blocking(move || {
            let part = page.next();
            drop(turn);
            (page, part)
        });
        let (page, part) = made.await.map_err(io::Error::other)?;
        let (bytes, is_last) = part?;
        if !is_last {
            // The clerk may have looked for it meanwhile, and does not come back.
            if Instant::now() >= self.late_at {
                return Err(late());
            }
            *self.page.lock() = Some(page);
        }
        Ok((bytes, is_last))
    }

    /// The page with its first part, which is there already.
    fn into_body(self, first: Bytes) -> ReplyBody {
        // Nobody asks for parts while the client does not read, so time passes elsewhere.
        let mut clerk = JoinSet::new();
        let (page, late_at) = (Arc::downgrade(&self.page.0), self.late_at);
        clerk.spawn(async move {
            tokio::time::sleep_until(late_at).await;
            drop(page.upgrade().map(Shelf).and_then(|page| page.take()));
        });
        let rest = stream::try_unfold(Some((self, clerk)), |there| async move {
            let Some((delivery, clerk)) = there else { return Ok(None) };
            let (bytes, is_last) = delivery.next().await?;
            Ok::<_, io::Error>(Some((bytes, (!is_last).then_some((delivery, clerk)))))
        });
        let parts = stream::iter([Ok(first)]).chain(rest);
        BodyExt::boxed_unsync(StreamBody::new(parts.map_ok(Frame::data)))
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the page was not read in time")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use hyper::body::Body;

    use super::*;

    const PART: usize = 32 << 10;

    fn asking(accepted: Option<&'static str>) -> HeaderMap {
        let mut asked = HeaderMap::new();
        if let Some(accepted) = accepted {
            asked.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        }
        asked
    }

    /// Parts that do not compress well, so that packed ones are long, too.
    fn parts(n: usize) -> impl Iterator<Item = String> + Send + 'static {
        let mut state = 1_u64;
        (0..n).map(move |_| {
            let letters = (0..PART).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b' ' + (state >> 58) as u8)
            });
            letters.collect()
        })
    }

    async fn text(reply: Reply) -> io::Result<String> {
        let is_packed = reply.headers().contains_key(CONTENT_ENCODING);
        let bytes = reply.into_body().collect().await?.to_bytes();
        let mut text = String::new();
        if is_packed {
            GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
        } else {
            (&bytes[..]).read_to_string(&mut text)?;
        }
        Ok(text)
    }

    #[tokio::test]
    async fn gzip_is_for_those_who_take_it() {
        for (accepted, expected) in [
            (None, false),
            (Some("gzip"), true),
            (Some("deflate, gzip;q=0.3"), true),
            (Some("gzip;q=0"), false),
            (Some("identity"), false),
        ] {
            let asked = asking(accepted);
            let reply = whole(&asked, "x 1\n".to_owned()).await;
            assert_eq!(reply.headers().contains_key(CONTENT_ENCODING), expected, "{accepted:?}");
            assert_eq!(text(reply).await.unwrap(), "x 1\n");
            let scrape = Scrapes::default().begin().await.unwrap();
            let reply = scrape.reply(&asked, ["x 1\n".to_owned()].into_iter()).await.unwrap();
            assert_eq!(reply.headers().contains_key(CONTENT_ENCODING), expected, "{accepted:?}");
            assert_eq!(text(reply).await.unwrap(), "x 1\n");
        }
    }

    #[tokio::test]
    async fn parts_make_up_the_page() {
        let scrapes = Scrapes::default();
        for accepted in [None, Some("gzip")] {
            for n in [0, 1, 2, 3, 40] {
                let scrape = scrapes.begin().await.unwrap();
                let reply = scrape.reply(&asking(accepted), parts(n)).await.unwrap();
                let is_whole = reply.body().size_hint().exact().is_some();
                // How many parts a short packed one becomes is the packer's business.
                if accepted.is_none() || !(2..=3).contains(&n) {
                    assert_eq!(is_whole, n < 2, "{accepted:?} {n}");
                }
                let expected: String = parts(n).collect();
                assert!(text(reply).await.unwrap() == expected, "{accepted:?} {n}");
                assert_eq!(scrapes.places.available_permits(), MAX_SCRAPES);
            }
        }
    }

    #[tokio::test]
    async fn no_part_is_made_before_it_is_asked_for() {
        let made = Arc::new(Mutex::new(0));
        let counted = made.clone();
        let parts = parts(100).inspect(move |_| *counted.lock().unwrap() += 1);
        let scrape = Scrapes::default().begin().await.unwrap();
        let mut body = scrape.reply(&asking(None), parts).await.unwrap().into_body();
        for n in 1..10 {
            assert!(*made.lock().unwrap() <= n + 1);
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap().len(), PART);
        }
    }

    #[tokio::test]
    async fn scrapes_have_few_places() {
        let patience = Patience { place: Duration::ZERO, page: Duration::from_secs(3600) };
        let scrapes = Scrapes { patience, ..Scrapes::default() };
        let mut replies = Vec::new();
        for _ in 0..MAX_SCRAPES {
            let scrape = scrapes.begin().await.unwrap();
            replies.push(scrape.reply(&asking(None), parts(5)).await.unwrap());
        }
        assert!(scrapes.begin().await.is_none());
        // A client that is gone, and one that has read everything.
        drop(replies.pop());
        assert!(scrapes.begin().await.is_some());
        assert_eq!(text(replies.pop().unwrap()).await.unwrap().len(), 5 * PART);
        assert_eq!(scrapes.places.available_permits(), 2);
    }

    #[tokio::test]
    async fn a_page_that_is_not_read_in_time_is_cut_off() {
        let scrapes = Scrapes::default();
        // One is late when it has a part made, and the other while nobody asks for the next one.
        let scrape = Scrape { late_at: Instant::now(), ..scrapes.begin().await.unwrap() };
        let error = scrape.reply(&asking(None), parts(5)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(scrapes.places.available_permits(), MAX_SCRAPES);
        let Scrape { place, turn, .. } = scrapes.begin().await.unwrap();
        let page = Page { parts: boxed(parts(5)), encoder: None, _place: place };
        let delivery = Delivery { page: Shelf::with(page), turn, late_at: Instant::now() };
        let body = delivery.into_body(Bytes::from_static(b"x"));
        // As soon as the clerk has been there, somebody else has the place.
        drop(scrapes.places.acquire_many(MAX_SCRAPES as u32).await.unwrap());
        assert_eq!(body.collect().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_breaks_down_is_not_taken_for_the_whole() {
        let scrapes = Scrapes::default();
        let broken =
            |n: usize| parts(n).chain(std::iter::once_with(|| -> String { panic!("as intended") }));
        let scrape = scrapes.begin().await.unwrap();
        assert!(scrape.reply(&asking(Some("gzip")), broken(1)).await.is_err());
        let scrape = scrapes.begin().await.unwrap();
        let reply = scrape.reply(&asking(None), broken(5)).await.unwrap();
        assert!(text(reply).await.is_err());
        assert_eq!(scrapes.places.available_permits(), MAX_SCRAPES);
        assert_eq!(scrapes.turn.available_permits(), 1);
    }
}

//! How the pieces of a load are doing, told to the page.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use engine::protocol::{Arriving, Event, Pieces};
use js_sys::Date;
use weights::pieces::{From, Notice};

use crate::post;

/// Milliseconds between two reports of an arriving piece.
const REPORT_MILLIS: f64 = 100.0;

/// What is told of the pieces of a load.
#[derive(Clone)]
pub(super) struct Reports(Rc<RefCell<Report>>);

struct Report {
    pieces: Pieces,
    /// When it was last told, in milliseconds since 1970.
    told: f64,
    /// The piece that is arriving and how far it was.
    last: (usize, u64),
    verified: BTreeSet<usize>,
}

impl Reports {
    pub(super) fn new(total: usize) -> Self {
        Self(Rc::new(RefCell::new(Report {
            pieces: Pieces {
                total: total as u32,
                verified: 0,
                hashing: None,
                arriving: None,
                kept: 0,
                damaged: 0,
                discarded: None,
                not_kept: None,
                fetched: 0,
            },
            told: 0.0,
            last: (0, 0),
            verified: BTreeSet::new(),
        })))
    }

    pub(super) fn not_kept(&self, why: String) {
        self.change(true, |pieces| pieces.not_kept = Some(why));
    }

    pub(super) fn discarded(&self, reason: String) {
        self.change(true, |pieces| pieces.discarded = Some(reason));
    }

    fn change(&self, always: bool, change: impl FnOnce(&mut Pieces)) {
        let mut report = self.0.borrow_mut();
        change(&mut report.pieces);
        let now = Date::now();
        if always || now - report.told >= REPORT_MILLIS {
            report.told = now;
            post(&Event::Pieces {
                pieces: report.pieces.clone(),
            });
        }
    }

    pub(super) fn notice(&self, notice: &Notice) {
        match *notice {
            Notice::Arriving {
                piece,
                from,
                done,
                bytes,
            } => {
                let last = std::mem::replace(&mut self.0.borrow_mut().last, (piece, done));
                let before = if last.0 == piece && last.1 < done {
                    last.1
                } else {
                    0
                };
                self.change(done == bytes, |pieces| {
                    if from == From::Origin {
                        pieces.fetched += done - before;
                    }
                    pieces.hashing = None;
                    pieces.arriving = Some(Arriving {
                        piece: piece as u32,
                        done,
                        bytes,
                    });
                });
            }
            Notice::Hashing { piece } => self.change(true, |pieces| {
                pieces.arriving = None;
                pieces.hashing = Some(piece as u32);
            }),
            Notice::Verified { piece, kept, .. } => {
                // Reading may jump back.
                let fresh = self.0.borrow_mut().verified.insert(piece);
                self.change(true, |pieces| {
                    pieces.hashing = None;
                    pieces.arriving = None;
                    pieces.verified += u32::from(fresh);
                    pieces.kept += u32::from(fresh && kept);
                });
            }
            Notice::Damaged { .. } => self.change(true, |pieces| {
                pieces.hashing = None;
                pieces.damaged += 1;
            }),
            Notice::NotKept { ref why } => self.not_kept(why.to_string()),
            Notice::Discarded => self.change(true, |pieces| {
                pieces.kept = 0;
                pieces.discarded = Some("the model has changed at its origin".to_owned());
            }),
        }
    }
}

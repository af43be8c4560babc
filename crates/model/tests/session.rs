//! Sessions over a network that is none: whatever is asked in whatever order, the tokens are those of a
//! fresh session with the same history, and no token is run twice.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use model::sampling::Outlook;
use model::{
    BackendError, Config, Memory, Network, Pairing, Prefill, Rope, Sampling, Session, SessionError,
};
use pollster::block_on;
use proptest::prelude::*;

const VOCAB: u32 = 7;
const CAPACITY: usize = 12;

/// When the network fails, and how it did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    /// The call after so many others fails.
    In(usize),
    /// A growth of the cache failed, which leaves it as it was.
    OfRoom,
    /// Work failed, which leaves nothing of use.
    OfWork,
}

/// Its logits are a hash of all tokens so far. It keeps to the letter of [`Network`], and panics when
/// the caller does not.
struct Fake {
    config: Config,
    ahead: bool,
    chunk: usize,
    fault: Rc<Cell<Fault>>,
    /// The cache; `None` where a failure left nothing.
    cells: Vec<Option<u32>>,
    room: usize,
    logits: Option<Vec<f32>>,
    latest: Option<u32>,
    chosen: VecDeque<u32>,
    /// Tokens run since the beginning.
    run: usize,
}

impl Fake {
    fn new(ahead: bool, chunk: usize, fault: Rc<Cell<Fault>>) -> Self {
        Self {
            config: config(),
            ahead,
            chunk,
            fault,
            cells: Vec::new(),
            room: 0,
            logits: None,
            latest: None,
            chosen: VecDeque::new(),
            run: 0,
        }
    }

    /// Counts a call down to the one that fails.
    fn fails(&self, how: Fault) -> bool {
        match self.fault.get() {
            Fault::In(0) => self.fault.set(how),
            Fault::In(calls) => {
                self.fault.set(Fault::In(calls - 1));
                return false;
            }
            _ => return false,
        }
        true
    }

    fn work(&mut self) -> Result<(), BackendError> {
        if !self.fails(Fault::OfWork) {
            return Ok(());
        }
        self.cells.fill(None);
        self.logits = None;
        self.latest = None;
        // What a caller must not take for a token.
        self.chosen.push_back(u32::MAX);
        Err(BackendError::Fault("asked for".to_owned()))
    }

    fn append(&mut self, ids: &[u32], past: usize, want_logits: bool) {
        assert!(!ids.is_empty() && ids.len() <= self.chunk);
        assert!(past + ids.len() <= self.room, "room was not asked for");
        assert!(past <= self.cells.len());
        self.cells.truncate(past);
        self.cells.extend(ids.iter().map(|id| Some(*id)));
        self.run += ids.len();
        let held: Option<Vec<u32>> = self.cells.iter().copied().collect();
        let held = held.expect("a caller that knows what failed");
        self.logits = want_logits.then(|| logits_of(&held));
    }
}

fn config() -> Config {
    Config {
        layers: 1,
        dim: 4,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        ffn: 4,
        vocab: VOCAB as usize,
        norm_eps: 1e-5,
        context: 100,
        rope: Rope {
            theta: 10_000.0,
            linear: 1.0,
            divisors: None,
            pairing: Pairing::Adjacent,
        },
    }
}

/// Some numbers from 0 to 4 that depend on every token and its place.
fn logits_of(ids: &[u32]) -> Vec<f32> {
    let seed = ids.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, id| {
        (hash ^ u64::from(id + 1)).wrapping_mul(0x0100_0000_01b3)
    });
    (0..u64::from(VOCAB))
        .map(|id| {
            let mixed = (seed ^ (id << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 40) as f32 / (1 << 22) as f32
        })
        .collect()
}

impl Network for Fake {
    fn config(&self) -> &Config {
        &self.config
    }

    fn chunk_tokens(&self) -> usize {
        self.chunk
    }

    fn runs_ahead(&self) -> bool {
        self.ahead
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }

    async fn reserve(&mut self, tokens: usize) -> Result<(), BackendError> {
        if self.fails(Fault::OfRoom) {
            return Err(BackendError::Memory("asked for".to_owned()));
        }
        self.room = self.room.max(tokens);
        Ok(())
    }

    async fn run(
        &mut self,
        ids: &[u32],
        past: usize,
        want_logits: bool,
    ) -> Result<(), BackendError> {
        self.work()?;
        self.append(ids, past, want_logits);
        Ok(())
    }

    async fn run_chosen(&mut self, past: usize) -> Result<(), BackendError> {
        self.work()?;
        let id = self.latest.take().expect("a chosen token");
        self.append(&[id], past, true);
        Ok(())
    }

    async fn choose(&mut self, sampling: &Sampling, index: u64) -> Result<(), BackendError> {
        self.work()?;
        let logits = self.logits.as_ref().expect("logits to choose by");
        let id = sampling.choose(logits, index);
        self.latest = Some(id);
        self.chosen.push_back(id);
        Ok(())
    }

    async fn chosen(&mut self) -> Result<u32, BackendError> {
        self.work()?;
        Ok(self.chosen.pop_front().expect("a chosen token"))
    }

    fn forget_chosen(&mut self) {
        self.chosen.clear();
        self.latest = None;
    }

    async fn logits(&mut self) -> Result<Vec<f32>, BackendError> {
        self.work()?;
        Ok(self.logits.clone().expect("logits to read"))
    }

    async fn wait(&mut self) -> Result<(), BackendError> {
        self.work()
    }
}

const SAMPLINGS: [Sampling; 3] = [
    Sampling::GREEDY,
    Sampling {
        temperature: 0.8,
        seed: 1,
        ..Sampling::GREEDY
    },
    Sampling {
        temperature: 1.5,
        top_k: 4,
        seed: 2,
        ..Sampling::GREEDY
    },
];

#[derive(Clone, Debug)]
enum Step {
    /// A prompt of the first `keep` tokens of the history and some others, stopped after so many chunks.
    Prefill {
        keep: usize,
        tail: Vec<u32>,
        stop: usize,
    },
    /// The next token; with other settings or another index than the last time where `other` says so.
    Next {
        other: Option<(usize, u64)>,
        more: bool,
    },
    Outlook,
    Logits,
    Push(u32),
    Clear,
    /// One of the calls to come fails.
    Fail(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let other = prop_oneof![
        4 => Just(None),
        1 => (0..SAMPLINGS.len(), 0u64..4).prop_map(Some),
    ];
    // Now and then an id outside the vocabulary.
    let id = prop_oneof![30 => 0..VOCAB, 1 => Just(VOCAB)];
    let stop = prop_oneof![3 => Just(usize::MAX), 1 => 0usize..4];
    prop_oneof![
        4 => (0..=CAPACITY, prop::collection::vec(id.clone(), 0..8), stop)
            .prop_map(|(keep, tail, stop)| Step::Prefill { keep, tail, stop }),
        12 => (other, any::<bool>()).prop_map(|(other, more)| Step::Next { other, more }),
        1 => Just(Step::Outlook),
        2 => Just(Step::Logits),
        3 => id.prop_map(Step::Push),
        1 => Just(Step::Clear),
        2 => (0usize..8).prop_map(Step::Fail),
    ]
}

/// A session and what must be true of it.
struct Checked {
    session: Session<Fake>,
    fault: Rc<Cell<Fault>>,
    /// What was run or given, in order.
    history: Vec<u32>,
    /// Whether the history ends where a token can be chosen.
    open: bool,
    sampling: Sampling,
    index: u64,
}

impl Checked {
    fn new(ahead: bool, chunk: usize) -> Self {
        let fault = Rc::new(Cell::new(Fault::None));
        Self {
            session: Session::new(Fake::new(ahead, chunk, fault.clone()), CAPACITY),
            fault,
            history: Vec::new(),
            open: false,
            sampling: SAMPLINGS[1],
            index: 0,
        }
    }

    fn held(&self) -> Vec<u32> {
        let cells = &self.session.network().cells[..self.session.len()];
        cells.iter().map(|cell| cell.expect("a token")).collect()
    }

    fn take(&mut self, step: Step) {
        if !matches!(self.fault.get(), Fault::In(_)) {
            self.fault.set(Fault::None);
        }
        let (len, run) = (self.session.len(), self.session.network().run);
        let prefilled = matches!(step, Step::Prefill { .. });
        match step {
            Step::Prefill { keep, tail, stop } => {
                let mut ids = self.history[..keep.min(self.history.len())].to_vec();
                ids.extend(tail);
                self.prefill(&ids, stop);
            }
            Step::Next { other, more } => {
                match other {
                    Some((sampling, index)) => {
                        (self.sampling, self.index) = (SAMPLINGS[sampling], index);
                    }
                    None => self.index += 1,
                }
                let given = block_on(self.session.next(&self.sampling, self.index, more));
                self.given(given);
            }
            Step::Outlook => {
                let expected = logits_of(&self.history);
                let given = self
                    .session
                    .next_with_outlook(&self.sampling, self.index, 3);
                let given = block_on(given).map(|(id, outlook)| {
                    assert_eq!(outlook, Outlook::new(&expected, id, 3));
                    id
                });
                self.given(given);
            }
            Step::Logits => match block_on(self.session.logits()) {
                Ok(logits) => {
                    assert!(self.open);
                    assert_eq!(logits, logits_of(&self.history));
                }
                Err(error) => self.failed(&error, self.history.len()),
            },
            Step::Push(id) => match block_on(self.session.push(id)) {
                Ok(()) => {
                    self.history.push(id);
                    self.open = true;
                    assert_eq!(self.session.len(), self.history.len());
                }
                Err(SessionError::UnknownId { .. }) => assert_eq!(id, VOCAB),
                Err(error) => self.failed(&error, self.history.len() + 1),
            },
            Step::Clear => {
                self.session.clear();
                self.history.clear();
                self.open = false;
            }
            Step::Fail(calls) => self.fault.set(Fault::In(calls)),
        }
        let held = self.held();
        assert!(self.history.starts_with(&held));
        assert!(self.history.len() <= held.len() + 1, "one is not run yet");
        if self.session.len() > len && !prefilled {
            let appended = self.session.len() - len;
            assert_eq!(self.session.network().run - run, appended);
        }
    }

    fn given(&mut self, given: Result<u32, SessionError>) {
        match given {
            Ok(id) => {
                assert!(self.open);
                assert_eq!(id, self.fresh(), "as a fresh session has it");
                self.history.push(id);
            }
            Err(error) => self.failed(&error, self.history.len()),
        }
    }

    /// What a session of the other kind gives that knows nothing but the history.
    fn fresh(&self) -> u32 {
        let ahead = !self.session.network().ahead;
        let mut session = Session::new(Fake::new(ahead, 5, Rc::default()), CAPACITY);
        block_on(session.prefill(&self.history, |_| true)).expect("it fits");
        block_on(session.next(&self.sampling, self.index, true)).expect("a token")
    }

    fn prefill(&mut self, ids: &[u32], stop: usize) {
        let held = self.held();
        let common = ids.iter().zip(&held).take_while(|(a, b)| a == b).count();
        let reused = if common == ids.len() && common == held.len() && self.open {
            common
        } else {
            common.min(ids.len().saturating_sub(1))
        };
        assert_eq!(self.session.reusable(ids), reused);
        let before = self.session.network().run;
        let mut chunks = 0;
        let done = block_on(self.session.prefill(ids, |done| {
            assert!(done >= reused && done < ids.len());
            chunks += 1;
            chunks <= stop
        }));
        let run = self.session.network().run - before;
        match done {
            Ok(done) => {
                let complete = reused + run == ids.len();
                assert!(complete || chunks == stop + 1);
                let expected = Prefill {
                    reused,
                    run,
                    complete,
                };
                assert_eq!(done, expected);
                self.history = ids[..reused + run].to_vec();
                self.open = complete;
                assert_eq!(self.session.len(), self.history.len());
            }
            Err(SessionError::Empty) => assert!(ids.is_empty()),
            Err(SessionError::UnknownId { id, .. }) => assert_eq!(id, VOCAB),
            Err(error) => {
                if self.fault.get() == Fault::OfRoom {
                    self.history = ids[..reused].to_vec();
                    self.open = false;
                }
                self.failed(&error, ids.len());
            }
        }
    }

    /// Judges an error of a call that needs `tokens` tokens in the cache.
    fn failed(&mut self, error: &SessionError, tokens: usize) {
        match error {
            SessionError::Empty => assert!(!self.open),
            SessionError::ContextFull { .. } => assert!(tokens > CAPACITY),
            SessionError::UnknownId { .. } => panic!("{error}"),
            SessionError::Backend(_) => match self.fault.get() {
                Fault::OfRoom => {}
                Fault::OfWork => {
                    self.history.clear();
                    self.open = false;
                    assert!(self.session.is_empty());
                }
                other => panic!("{error} without a reason: {other:?}"),
            },
        }
    }
}

const fn next(other: Option<(usize, u64)>) -> Step {
    Step::Next { other, more: true }
}

fn prompt(ids: &[u32]) -> Step {
    Step::Prefill {
        keep: 0,
        tail: ids.to_vec(),
        stop: usize::MAX,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn tokens_depend_on_the_history_alone(
        ahead in any::<bool>(),
        chunk in 1usize..5,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut checked = Checked::new(ahead, chunk);
        for step in steps {
            checked.take(step);
        }
        // Whatever happened, it goes on from here.
        checked.fault.set(Fault::None);
        checked.take(prompt(&[1, 2, 3]));
        checked.take(next(Some((0, 0))));
        checked.take(next(None));
        prop_assert_eq!(checked.history.len(), 5);
    }
}

/// Both kinds of network give as many tokens, up to the last that fits.
#[test]
fn a_generation_ends_where_the_context_does() {
    for ahead in [true, false] {
        let mut checked = Checked::new(ahead, 4);
        checked.take(prompt(&[1, 2, 3]));
        for _ in 0..20 {
            checked.take(next(None));
        }
        assert_eq!(checked.history.len(), CAPACITY + 1);
        assert_eq!(checked.session.len(), CAPACITY);
        let error = block_on(checked.session.next(&Sampling::GREEDY, 0, true));
        assert!(matches!(
            error,
            Err(SessionError::ContextFull {
                tokens: 13,
                capacity: 12
            })
        ));
    }
}

/// A network that runs ahead runs each token once, and none that was not asked for.
#[test]
fn running_ahead_runs_nothing_twice() {
    let mut session = Session::new(Fake::new(true, 4, Rc::default()), 100);
    block_on(session.prefill(&[1, 2, 3], |_| true)).expect("it fits");
    for index in 0..10 {
        block_on(session.next(&SAMPLINGS[1], index, index < 9)).expect("a token");
        assert_eq!(session.network().run, 3 + 9.min(index as usize + 1));
    }
}

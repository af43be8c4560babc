//! A short run of `examples/fuzz`, on every test run.

#[path = "../examples/fuzz/inputs.rs"]
mod inputs;
#[path = "../examples/fuzz/run.rs"]
mod run;
#[path = "../examples/fuzz/targets.rs"]
mod targets;

#[test]
fn parsers_hold() {
    let found = run::on_small_stack(|| run::run(40_000, 7));
    assert!(found.problems.is_empty(), "{:#?}", found.problems);
    assert!(found.executions.values().all(|count| *count > 5_000));
}

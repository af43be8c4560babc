//! Whether a model fits, before it is fetched.

use model::package::Package;
use model::{Estimate, Plan};

use super::failure::load_failure;
use super::{Backend, label};
use crate::protocol::{
    Failure, Finding, LargestTensor, LoadOptions, Offer, Preflight, Processor, Storage,
};

/// What only the browser knows.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Bytes that are still to be fetched.
    pub download_bytes: u64,
    /// Bytes of the model that are kept already.
    pub kept_bytes: u64,
    /// Bytes that the model takes in storage when all of it is kept.
    pub storage_bytes: u64,
    /// The storage; `Err` says why there is none.
    pub storage: Result<Storage, String>,
    /// Bytes of memory that the browser says the device has. Browsers name a round number and not all
    /// of it, so it warns and never refuses.
    pub device_memory: Option<u64>,
    /// The model in other quantizations that could be made of the same source, by name.
    pub recipes: Vec<(String, Plan)>,
}

/// Contexts that are offered where a longer one does not fit, in tokens.
const CONTEXTS: [u32; 6] = [16_384, 8192, 4096, 2048, 1024, 512];

/// Bytes that a model takes with a context of so many tokens.
pub(super) fn total(estimate: &Estimate, context: u32) -> u64 {
    estimate.weights + estimate.workspace + estimate.cache_per_token * u64::from(context)
}

/// Why a model cannot be loaded so.
pub(super) fn refusals(estimate: &Estimate, options: &LoadOptions) -> Vec<Finding> {
    let needed = total(estimate, options.context);
    let context = u64::from(options.context);
    let memory = estimate.most_bytes.filter(|most| needed > *most);
    let memory = memory.map(|most| {
        format!(
            "The CPU engine works in a memory of 4 GB, of which models can have {}; this one needs {}.",
            gigabytes(most),
            gigabytes(needed)
        )
    });
    let tokens = estimate.most_tokens.filter(|most| context > *most);
    let tokens = tokens.map(|most| {
        format!(
            "A context of {context} tokens needs cache buffers larger than this GPU binds; the longest \
             possible here is {most} tokens."
        )
    });
    let limit = options.memory_limit.filter(|limit| needed > *limit);
    let limit = limit.map(|limit| {
        format!(
            "It needs {}, which is {} more than the limit you set.",
            gigabytes(needed),
            gigabytes(needed - limit)
        )
    });
    [memory, tokens, limit]
        .into_iter()
        .flatten()
        .map(|message| Finding {
            refuses: true,
            message,
        })
        .collect()
}

/// What the model takes, what there is, and what follows. `other` is what the other side's model takes.
pub(super) fn preflight<B: Backend>(
    backend: &B,
    package: &Package,
    options: &LoadOptions,
    other: u64,
    around: Surroundings,
) -> Result<Preflight, Failure> {
    let estimate = backend
        .estimate(&package.plan, options.half_cache)
        .map_err(|error| load_failure(&error))?;
    let context = options.context;
    let needed = total(&estimate, context);
    let mut findings = refusals(&estimate, options);
    let mut find = |message: String| {
        findings.push(Finding {
            refuses: false,
            message,
        });
    };
    if let Some(limit) = options.memory_limit {
        if needed <= limit && needed + other > limit {
            find(
                "It does not fit beside the other side's model: they will take turns, and the one \
                 that is needed is read from storage again."
                    .to_owned(),
            );
        }
    } else if let Some(memory) = around
        .device_memory
        .filter(|memory| needed + other > *memory)
    {
        find(format!(
            "It needs {}, and the browser says that this device has about {}. If memory runs out, \
                 loading ends with a message.",
            gigabytes(needed + other),
            gigabytes(memory)
        ));
    }
    let model_context = u32::try_from(package.plan.config.context).unwrap_or(u32::MAX);
    if context > model_context {
        find(format!(
            "The model was made for {model_context} tokens; beyond that it talks nonsense."
        ));
    }
    if options.keep {
        match &around.storage {
            Err(why) => find(format!(
                "It cannot be kept in this browser ({why}): the next visit fetches it again."
            )),
            Ok(storage) => {
                let missing = around.storage_bytes.saturating_sub(around.kept_bytes);
                let free = storage.quota.saturating_sub(storage.used);
                if missing > free {
                    find(format!(
                        "Storage is short: keeping it takes {} more, and the browser offers {}. \
                             Delete a kept model, or it is loaded without being kept whole.",
                        gigabytes(missing),
                        gigabytes(free)
                    ));
                }
            }
        }
    }

    let memory = options.memory_limit.or(around.device_memory);
    let room = [options.memory_limit, estimate.most_bytes]
        .into_iter()
        .flatten()
        .min()
        .or(around.device_memory);
    let fits = |estimate: &Estimate, context: u32| {
        room.is_none_or(|room| total(estimate, context) <= room)
            && estimate
                .most_tokens
                .is_none_or(|most| u64::from(context) <= most)
    };
    let mut offers = Vec::new();
    if !fits(&estimate, context) {
        if !options.half_cache
            && let Ok(half) = backend.estimate(&package.plan, true)
            && half.cache_per_token < estimate.cache_per_token
            && fits(&half, context)
        {
            offers.push(Offer::HalfCache {
                total_bytes: total(&half, context),
            });
        }
        let shorter = CONTEXTS
            .into_iter()
            .find(|shorter| *shorter < context && fits(&estimate, *shorter));
        offers.extend(shorter.map(|context| Offer::Context {
            context,
            total_bytes: total(&estimate, context),
        }));
        for (recipe, plan) in around.recipes {
            if let Ok(smaller) = backend.estimate(&plan, options.half_cache)
                && smaller.weights < estimate.weights
                && fits(&smaller, context)
            {
                offers.push(Offer::Recipe {
                    recipe,
                    total_bytes: total(&smaller, context),
                });
            }
        }
        if offers.is_empty() {
            offers.push(Offer::SmallerModel);
        }
    }
    let max_binding = match backend.processor() {
        Processor::Gpu { adapter } => adapter.max_binding,
        Processor::Cpu { .. } => 0,
    };
    Ok(Preflight {
        name: package.name.clone(),
        label: label(package, options),
        licence: package.licence.clone().map(Into::into),
        parameters: package.parameters,
        download_bytes: around.download_bytes,
        kept_bytes: around.kept_bytes,
        storage_bytes: around.storage_bytes,
        weight_bytes: estimate.weights,
        cache_bytes: estimate.cache_per_token * u64::from(context),
        workspace_bytes: estimate.workspace,
        other_bytes: other,
        context,
        model_context,
        largest: LargestTensor {
            name: estimate.largest,
            bytes: estimate.largest_bytes,
            parts: estimate.largest_parts,
            max_binding,
        },
        memory,
        storage: around.storage,
        findings,
        offers,
    })
}

/// Bytes in decimal gigabytes or megabytes, as memory and downloads are sold.
fn gigabytes(bytes: u64) -> String {
    if bytes >= 1_000_000_000 {
        format!("{:.2} GB", bytes as f64 / 1e9)
    } else {
        format!("{} MB", bytes.div_ceil(1_000_000))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sessions of one model. They are made when they are needed, and idle ones are closed when a request
//! for memory finds none. A run that finds none even so is repeated alone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use cachalot::{Pressure, Tenant, TenantOptions, TenantScope};
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{NoSelectedOutputs, RunOptions, Session};
use ort::value::TensorRef;

use crate::memory::Memory;
use crate::onnxruntime::{self, Exhausted};
use crate::settings::Mode;

pub enum Failure {
    /// There was no memory, and nothing left to evict.
    Exhausted(Exhausted),
    Other(String),
}

#[derive(Default)]
struct Sessions {
    idle: Vec<Session>,
    /// Those and the ones in use.
    count: usize,
    evicted: u64,
}

/// What the tenant's callback sees of a pool.
struct Shelf {
    sessions: Mutex<Sessions>,
    changed: Condvar,
    /// The size of the model's file: about what a session's weights take.
    weights: u64,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle sessions; about how many bytes that freed.
    fn evict(&self) -> u64 {
        let closed = {
            let mut sessions = self.lock();
            let closed = std::mem::take(&mut sessions.idle);
            sessions.count -= closed.len();
            sessions.evicted += closed.len() as u64;
            closed
        };
        self.changed.notify_all();
        closed.len() as u64 * self.weights // they close here, without the lock
    }
}

/// Held by each run of any model; for writing by one that needs all the memory there is.
pub type Turn = Arc<RwLock<()>>;

pub struct Pool {
    turn: Turn,
    path: PathBuf,
    mode: Mode,
    most: usize,
    tenant: Option<Tenant>,
    shelf: Arc<Shelf>,
}

impl Drop for Pool {
    /// The tenant's callback has the shelf too, and a tenant stays as long as it has blocks.
    fn drop(&mut self) {
        self.shelf.evict();
    }
}

/// One session, for one run.
struct Lent<'a> {
    session: Option<Session>,
    shelf: &'a Shelf,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut sessions = self.shelf.lock();
        match self.session.take() {
            Some(session) => sessions.idle.push(session),
            None => sessions.count -= 1,
        }
        drop(sessions);
        self.shelf.changed.notify_one();
    }
}

/// Whether it was for want of memory.
fn explain(error: ort::Error) -> Failure {
    match onnxruntime::last_failure() {
        Some(exhausted) => Failure::Exhausted(exhausted),
        None => Failure::Other(error.to_string()),
    }
}

impl Pool {
    pub fn new(
        name: &str,
        path: &Path,
        most: usize,
        memory: &Memory,
        turn: &Turn,
    ) -> Result<Self, String> {
        let file = path.metadata().map_err(|error| format!("{}: {error}", path.display()))?;
        let shelf = Arc::new(Shelf {
            sessions: Mutex::default(),
            changed: Condvar::new(),
            weights: file.len(),
        });
        let evicted = Arc::clone(&shelf);
        let options = TenantOptions::new(name).on_pressure(move |_: &Pressure| evicted.evict());
        let tenant = memory.create_tenant(options)?;
        Ok(Self {
            turn: Arc::clone(turn),
            path: path.into(),
            mode: memory.mode(),
            most,
            tenant,
            shelf,
        })
    }

    /// Runs the model and looks at its only output. Without memory it waits for all other runs to end, and
    /// tries once more.
    pub fn run<R>(
        &self,
        shape: &[usize],
        planes: &[f32],
        look: impl Fn(&[i64], &[f32]) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let first = {
            let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
            self.run_once(shape, planes, &look)
        };
        match first {
            Err(Failure::Exhausted(_)) => {
                let _turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
                self.run_once(shape, planes, &look)
            }
            other => other,
        }
    }

    fn run_once<R>(
        &self,
        shape: &[usize],
        planes: &[f32],
        look: impl Fn(&[i64], &[f32]) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        // All that ONNX Runtime asks for on this thread is this tenant's, until the end of the output.
        let _tenant = self.enter().map_err(|error| Failure::Other(error.to_string()))?;
        onnxruntime::forget_failure();
        let mut lent = self.lend().map_err(explain)?;
        let session = lent.session.as_mut().expect("a session that is lent is there");
        let options = self.run_options().map_err(explain)?;
        let input = TensorRef::from_array_view((shape, planes)).map_err(explain)?;
        let outputs = session.run_with_options(ort::inputs![input], &options).map_err(explain)?;
        let (shape, values) = outputs[0].try_extract_tensor::<f32>().map_err(explain)?;
        look(shape, values)
    }

    fn enter(&self) -> cachalot::Result<Option<TenantScope>> {
        self.tenant.as_ref().map(Tenant::enter).transpose()
    }

    /// A text of the model's metadata.
    pub fn metadata(&self, key: &str) -> Result<String, String> {
        let _tenant = self.enter().map_err(|error| error.to_string())?;
        let lent = self.lend().map_err(|error| error.to_string())?;
        let session = lent.session.as_ref().expect("a session that is lent is there");
        let metadata = session.metadata().map_err(|error| error.to_string())?;
        // `ort` gives what is not there as an empty text.
        let text = metadata.custom(key).filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("{}: no metadata '{key}'", self.path.display()))
    }

    /// Sessions that there are, and how many were closed for want of memory.
    pub fn counts(&self) -> (usize, u64) {
        let sessions = self.shelf.lock();
        (sessions.count, sessions.evicted)
    }

    /// Closes all sessions and ends the tenant. None may be in use.
    pub fn close(mut self) -> Result<(), String> {
        self.shelf.evict();
        match self.tenant.take().map(Tenant::close) {
            Some(Err((_, error))) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// An idle session, else a new one while there are not enough, else waits.
    fn lend(&self) -> ort::Result<Lent<'_>> {
        let mut sessions = self.shelf.lock();
        loop {
            if let Some(session) = sessions.idle.pop() {
                return Ok(Lent { session: Some(session), shelf: &self.shelf });
            }
            if sessions.count < self.most {
                sessions.count += 1;
                drop(sessions);
                // It is counted from here on, and no longer if it cannot be made.
                let mut lent = Lent { session: None, shelf: &self.shelf };
                lent.session = Some(self.make()?);
                return Ok(lent);
            }
            sessions = self.shelf.changed.wait(sessions).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make(&self) -> ort::Result<Session> {
        let builder = Session::builder()?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(1)?
            .with_memory_pattern(false)?;
        let builder = match self.mode {
            Mode::Cachalot => {
                builder.with_env_allocators()?.with_device_allocated_initializers()?
            }
            Mode::NoArena => {
                let cpu = ort::ep::CPU::default().with_arena_allocator(false);
                builder.with_execution_providers([cpu.build()])?
            }
            Mode::Arena | Mode::ArenaShrink => builder,
        };
        let mut builder = builder;
        builder.commit_from_file(&self.path)
    }

    fn run_options(&self) -> ort::Result<RunOptions<NoSelectedOutputs>> {
        let mut options = RunOptions::new()?;
        if self.mode == Mode::ArenaShrink {
            options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
        }
        Ok(options)
    }
}

//! The state of a connection, and the replies to its commands.

use std::sync::Arc;

use opentelemetry::context::FutureExt;
use tokio::time::Instant;
use tollgate_service::auth::Role;

use super::arguments::OwnedCharge;
use super::check::{CheckCommand, forecasted};
use super::direct::LastLimit;
use super::parse::Command;
use super::reply::{Reply, Version};
use super::settle::{self, RefundCommand, SettleCommand};
use super::transaction::Transaction;
use crate::app::App;
use crate::listen::Client;
use crate::telemetry;

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) app: Arc<App>,
    pub(super) client: Arc<Client>,
    pub(super) version: Version,
    /// What the client may do, by its token or without one; `None` until it has sent one that is
    /// required.
    pub(super) role: Option<Role>,
    /// Whether the command under way failed to authenticate.
    pub(super) failed: bool,
    /// The commands since `MULTI`.
    pub(super) transaction: Option<Transaction>,
    /// See [`LastLimit`].
    pub(super) last_limit: Option<LastLimit>,
}

/// A command after parsing.
#[derive(Debug)]
pub(super) enum Action {
    Check(CheckCommand),
    Forecast(CheckCommand),
    Refund(RefundCommand, Role),
    Settle(SettleCommand, Role),
    Reset(OwnedCharge),
    /// `AUTH` or `HELLO`: done after the commands before it.
    Connect(Command),
    Reply(Reply),
    /// Of a command that is not known, or has other words than it takes: it ends a transaction.
    Refused(Reply),
    /// The commands of a transaction.
    Exec(Vec<Self>),
    Quit,
    /// Closes the connection without a reply.
    Drop,
}

impl Session {
    pub(crate) fn new(app: Arc<App>, client: Arc<Client>) -> Self {
        let role = app.auth().role_of(None);
        Self {
            app,
            client,
            version: Version::default(),
            role,
            failed: false,
            transaction: None,
            last_limit: None,
        }
    }

    /// Answers commands in order, within a span; `false` closes the connection.
    pub(super) async fn answer(&mut self, commands: &[Command], output: &mut Vec<u8>) -> bool {
        let start = Instant::now();
        let telemetry = Arc::clone(&self.app.telemetry);
        let traces = telemetry.traces.as_ref();
        let proceed = match traces.map(|traces| traces.begin_commands(commands.len())) {
            None => self.run(commands, output).await,
            Some(span) => {
                let proceed = self.run(commands, output).with_context(span.clone()).await;
                telemetry::end(&span, None);
                proceed
            }
        };
        telemetry.metrics.request("resp", start.elapsed());
        proceed
    }

    /// Answers commands in order; `false` closes the connection.
    pub(crate) async fn run(&mut self, commands: &[Command], output: &mut Vec<u8>) -> bool {
        let mut batch = Vec::new();
        let mut proceed = true;
        for command in commands {
            match self.next(command) {
                Action::Exec(actions) => {
                    self.decide(&mut batch, output).await;
                    self.write(&Reply::ArrayOf(actions.len()), output);
                    for action in actions {
                        self.perform(action, &mut batch, output).await;
                    }
                }
                Action::Quit => {
                    self.perform(Action::Reply(Reply::Simple("OK")), &mut batch, output).await;
                    proceed = false;
                }
                Action::Drop => proceed = false,
                action => self.perform(action, &mut batch, output).await,
            }
            if !proceed {
                break;
            }
        }
        self.decide(&mut batch, output).await;
        proceed
    }

    /// Does what a command asks for. What only charges waits for others, in the batch.
    async fn perform(
        &mut self,
        action: Action,
        batch: &mut Vec<CheckCommand>,
        output: &mut Vec<u8>,
    ) {
        let action = match action {
            Action::Check(check) if !check.peek => return batch.push(check),
            action => action,
        };
        self.decide(batch, output).await;
        let engine = self.app.engine();
        let reply = match action {
            Action::Check(check) => {
                let response = engine.peek(check.request(&check.listed(), self.version)).await;
                check.reply(response, self.version, engine.now_ms_up())
            }
            Action::Forecast(check) => {
                forecasted(engine.forecast(check.request(&check.listed(), self.version)).await)
            }
            Action::Refund(refund, role) => {
                settle::refunded(engine.refund(refund.request(), role).await)
            }
            Action::Settle(settle, role) => {
                settle::settled(engine.settle(settle.request(), role).await)
            }
            Action::Reset(charge) => {
                let (policy, key) = charge.names();
                settle::reset(engine.reset(policy, key).await)
            }
            Action::Connect(words) => {
                let reply = self.connect(&words);
                if std::mem::take(&mut self.failed) {
                    self.app.authentication_failed("resp", &self.client).await;
                }
                reply
            }
            Action::Reply(reply) | Action::Refused(reply) => reply,
            // These are not performed.
            Action::Exec(_) | Action::Quit | Action::Drop => return,
        };
        self.write(&reply, output);
    }

    /// Decides the batch, in order.
    async fn decide(&self, batch: &mut Vec<CheckCommand>, output: &mut Vec<u8>) {
        let engine = self.app.engine();
        let listed: Vec<_> = batch.iter().map(CheckCommand::listed).collect();
        let requests =
            batch.iter().zip(&listed).map(|(check, listed)| check.request(listed, self.version));
        let requests: Vec<_> = requests.collect();
        let results = match &*requests {
            [] => return,
            [one] => vec![engine.acquire(*one).await],
            many => engine.acquire_many(many).await,
        };
        let now_ms = engine.now_ms_up();
        for (check, result) in batch.iter().zip(results) {
            self.write(&check.reply(result, self.version, now_ms), output);
        }
        batch.clear();
    }

    fn write(&self, reply: &Reply, output: &mut Vec<u8>) {
        reply.write_to(output, self.version);
    }
}

//! The state of a connection, and the replies to its commands.

use std::sync::Arc;

use opentelemetry::context::FutureExt;
use tokio::time::Instant;
use tollgate_service::Auth;
use tollgate_service::auth::{Rights, TokenHash};

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
    /// The tokens by which the rights were found.
    pub(super) auth: Arc<Auth>,
    /// The last token of the client, if it was known.
    pub(super) token: Option<TokenHash>,
    /// What the client may do, by its token or without one; `None` until it has sent one that is
    /// required.
    pub(super) rights: Option<Rights>,
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
    Refund(RefundCommand),
    Settle(SettleCommand),
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
        let auth = Arc::clone(&app.auth());
        let rights = auth.rights_of(None);
        Self {
            app,
            client,
            version: Version::default(),
            auth,
            token: None,
            rights,
            failed: false,
            transaction: None,
            last_limit: None,
        }
    }

    /// Finds the rights of the client anew, for another token or after a reload.
    pub(super) fn find_rights(&mut self) {
        self.auth = Arc::clone(&self.app.auth());
        self.rights = self.auth.rights_of(self.token.as_ref());
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
        // A token that is not in force any more gives no rights to connections that sent it before.
        if !Arc::ptr_eq(&self.auth, &self.app.auth()) {
            self.find_rights();
        }
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
        let rights = self.rights.clone().unwrap_or_else(Rights::none);
        let reply = match action {
            Action::Check(check) => {
                let listed = check.listed();
                let request = check.request(&listed, self.version).within(&rights.policies);
                check.reply(engine.peek(request).await, self.version, engine.now_ms_up())
            }
            Action::Forecast(check) => {
                let listed = check.listed();
                let request = check.request(&listed, self.version).within(&rights.policies);
                forecasted(engine.forecast(request).await)
            }
            Action::Refund(refund) => {
                settle::refunded(engine.refund(refund.request(), &rights).await)
            }
            Action::Settle(settle) => {
                settle::settled(engine.settle(settle.request(), &rights).await)
            }
            Action::Reset(charge) => {
                let (policy, key) = charge.names();
                settle::reset(engine.reset(policy, key, &rights).await)
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
        let rights = self.rights.clone().unwrap_or_else(Rights::none);
        let requests = batch
            .iter()
            .zip(&listed)
            .map(|(check, listed)| check.request(listed, self.version).within(&rights.policies));
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

    pub(super) fn write(&self, reply: &Reply, output: &mut Vec<u8>) {
        if let Some(code) = reply.refusal() {
            self.app.refused("resp", code);
        }
        reply.write_to(output, self.version);
    }
}

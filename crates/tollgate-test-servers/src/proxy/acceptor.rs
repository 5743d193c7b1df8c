//! Accepts connections, and closes the listener to refuse them: only then the kernel refuses.

use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use socket2::SockRef;

use super::state::ProxyState;
use super::{Mode, connection};
use crate::port::{LISTEN, listen};

/// Returns when the proxy is closed. Until then it reads the state at every connection.
pub(super) fn accept_until_closed(
    listener: TcpListener,
    server: SocketAddr,
    state: &Arc<ProxyState>,
) {
    let Ok(addr) = listener.local_addr() else {
        return;
    };
    let mut listening = Some(listener);
    while let Some(listener) = listening.take() {
        let Ok((client, _)) = listener.accept() else {
            // The client has disconnected, or too many files are open.
            listening = Some(listener);
            continue;
        };
        let (mode, closing) = state.change(|now| (now.mode, now.closing));
        if closing {
            let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
            return;
        }
        if mode == Mode::Refuse {
            // Closing is not enough: a process that is just being started by another thread has a
            // copy of every socket until it becomes its program, and would keep this one listening.
            let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
            drop((client, listener));
            listening = refuse(addr, state);
            continue;
        }
        let shared = Arc::clone(state);
        // Connecting to the server may take a while; others can be accepted meanwhile.
        thread::spawn(move || connection::serve(client, server, &shared));
        listening = Some(listener);
    }
}

/// Stops listening until the mode changes. `None` when the proxy is closed.
fn refuse(addr: SocketAddr, state: &ProxyState) -> Option<TcpListener> {
    state.change(|now| now.listens = false);
    while !state.wait_for(LISTEN, |now| now.closing || now.mode != Mode::Refuse) {}
    if state.change(|now| now.closing) {
        return None;
    }
    let listener = listen(addr).ok()?;
    state.change(|now| now.listens = true);
    Some(listener)
}

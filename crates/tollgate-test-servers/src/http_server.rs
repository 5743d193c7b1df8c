//! An HTTP server inside of the test process, with a thread per connection: the base of
//! [`DynamoDbGateway`](crate::DynamoDbGateway) and [`UpstashShim`](crate::UpstashShim).

use std::fmt;
use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::Result;
use super::http::{self, Request, Response};
use super::port::Port;

/// How long a connection to itself may take, to wake the thread that accepts.
const WAKE: Duration = Duration::from_secs(5);

/// Answers the requests of one connection; `None` closes it.
pub(super) type Handler = Box<dyn FnMut(&Request) -> Option<Response>>;

/// A server. Dropping it closes its port and every connection.
pub(super) struct HttpServer {
    connections: Arc<Connections>,
    acceptor: Option<JoinHandle<()>>,
    port: Port,
}

#[derive(Debug, Default)]
struct Connections {
    /// The open ones; `None` once the server is closed.
    open: Mutex<Option<Vec<TcpStream>>>,
    accepted: AtomicU64,
}

impl HttpServer {
    /// Starts a server; `connect` makes the handler of each connection.
    ///
    /// # Errors
    /// When no port can be bound.
    pub(super) fn start(
        connect: impl Fn() -> Option<Handler> + Send + Sync + 'static,
    ) -> Result<Self> {
        let port = Port::reserve()?;
        let listener = port.listen()?;
        let open = Mutex::new(Some(Vec::new()));
        let connections = Arc::new(Connections { open, accepted: AtomicU64::new(0) });
        let shared = Arc::clone(&connections);
        let acceptor = thread::spawn(move || accept(&listener, &shared, &Arc::new(connect)));
        Ok(Self { connections, acceptor: Some(acceptor), port })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// How many connections were accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.connections.accepted.load(Ordering::Relaxed)
    }

    /// Closes every connection.
    pub(super) fn close_connections(&self) {
        self.connections.close_all(Some(Vec::new()));
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("addr", &self.addr()).finish_non_exhaustive()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.connections.close_all(None);
        // The thread that accepts checks for the end when a connection arrives.
        drop(TcpStream::connect_timeout(&self.addr(), WAKE));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Connections {
    /// Keeps a copy of a connection; `false` when the server is closed.
    fn add(&self, stream: &TcpStream) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(open), Ok(copy)) = (open.as_mut(), stream.try_clone()) else {
            return false;
        };
        // A closed connection has no peer.
        open.retain(|stream| stream.peer_addr().is_ok());
        open.push(copy);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Closes all; `then` takes their place.
    fn close_all(&self, then: Option<Vec<TcpStream>>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in std::mem::replace(&mut *open, then).into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Returns when the server is closed.
fn accept<C>(listener: &TcpListener, connections: &Connections, connect: &Arc<C>)
where
    C: Fn() -> Option<Handler> + Send + Sync + 'static,
{
    for stream in listener.incoming() {
        // The client has disconnected, or too many files are open.
        let Ok(stream) = stream else { continue };
        if !connections.add(&stream) {
            return;
        }
        let connect = Arc::clone(connect);
        thread::spawn(move || serve(stream, connect()));
    }
}

/// Answers one request after another, until a side closes the connection.
fn serve(stream: TcpStream, handler: Option<Handler>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    if let Some(mut handler) = handler {
        while let Ok(Some(request)) = http::read(&mut stream) {
            let Some(response) = handler(&request) else { break };
            if http::write(stream.get_mut(), &request, &response).is_err() {
                break;
            }
        }
    }
    // The copy in `Connections` would keep the connection open.
    let _ = stream.get_ref().shutdown(Shutdown::Both);
}

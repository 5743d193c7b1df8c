//! The one message of a request, whole and in time: who sends half of it holds nothing for long.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use tonic::Status;

/// What every message begins with: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// The request with all of its body, of which a message has at most `max` bytes.
pub(super) async fn whole(
    request: Request,
    max: usize,
    within: Duration,
) -> Result<Request, Status> {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(within, to_bytes(body, max.saturating_add(HEAD_BYTES))).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(Err(_)) => {
            let accepted = format!("the message cannot be read; accepted: up to {max} bytes");
            Err(Status::out_of_range(accepted))
        }
        Err(_) => Err(Status::deadline_exceeded("the message took too long to arrive")),
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn half_a_message_is_not_waited_for_and_a_whole_one_is_handed_on() {
        let begun = tokio_stream::once(Ok::<_, std::io::Error>("half"));
        let half = Request::new(Body::from_stream(begun.chain(tokio_stream::pending())));
        let status = whole(half, 100, Duration::ZERO).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let patience = Duration::from_secs(60);
        let long = Request::new(Body::from(vec![0; 106]));
        let status = whole(long, 100, patience).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange);
        let fits = Request::new(Body::from(vec![7; 105]));
        let body = whole(fits, 100, patience).await.unwrap().into_body();
        assert_eq!(to_bytes(body, 105).await.unwrap(), vec![7; 105]);
    }
}

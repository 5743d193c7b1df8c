use std::net::SocketAddr;

use axum::{Router, extract::ConnectInfo, routing::get};
use tollgate::{Limit, Limiter, Quota, algorithm::Gcra};
use tollgate_tower::{RateLimitLayer, extract::ClientIp};

async fn serve(listener: tokio::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let per_client = Limit::new("per-client", Gcra::new(Quota::per_minute(100))?)?;
    let client = ClientIp::peer::<ConnectInfo<SocketAddr>>();
    let layer = RateLimitLayer::new(Limiter::in_memory(), per_client, client)?;
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

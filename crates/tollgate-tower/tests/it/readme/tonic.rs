use tollgate::{Limit, Limiter, Quota, algorithm::Gcra};
use tollgate_tower::{RateLimitLayer, extract::ClientIp};
use tonic::transport::server::{Server, TcpConnectInfo, TcpIncoming};

async fn serve(incoming: TcpIncoming) -> Result<(), Box<dyn std::error::Error>> {
    let per_client = Limit::new("per-client", Gcra::new(Quota::per_minute(100))?)?;
    let client = ClientIp::peer::<TcpConnectInfo>();
    let layer = RateLimitLayer::new(Limiter::in_memory(), per_client, client)?;
    let (_, service) = tonic_health::server::health_reporter(); // your service here
    Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming).await?;
    Ok(())
}

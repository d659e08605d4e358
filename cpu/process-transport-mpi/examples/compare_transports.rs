//! Compares the transports over MPI and sockets between two processes of one machine: the time of a message of 4 bytes
//! in one direction, and the throughput of messages of 64 MiB. Prints the medians and the ratio of the times.
//!
//! Start the example with `mpirun -n 2 compare_transports`.

use std::error::Error;
use std::time::{Duration, Instant};

use process_transport::{LocalListener, Stream, Transport};
use process_transport_mpi::MpiProcess;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of rounds. Each round measures both transports.
const ROUNDS: usize = 9;

/// Sends a message back and forth `count` times. Returns the mean time of one direction.
fn exchange(own: &dyn Transport, body: &[u8], count: u32) -> Result<Duration, process_transport::Error> {
    let (peer, stream) = (1 - own.rank(), Stream::default());
    let receive = || own.receive(peer, stream, 0, Instant::now() + TIMEOUT);
    let start = Instant::now();
    for _ in 0..count {
        if own.rank() == 0 {
            own.send(peer, stream, 0, &[body])?;
            own.recycle(receive()?);
        } else {
            let message = receive()?;
            own.send(peer, stream, 0, &[&message])?;
            own.recycle(message);
        }
    }
    Ok(start.elapsed() / count / 2)
}

fn main() -> Result<(), Box<dyn Error>> {
    let process = MpiProcess::start()?;
    let place = process.address().to_owned();
    let rank = usize::from(place == "mpi1 1 2");
    let mpi = process.connect(rank, &["mpi1 0 2".to_owned(), "mpi1 1 2".to_owned()], TIMEOUT)?;
    // The processes exchange the addresses of the socket transport through MPI.
    let listener = LocalListener::bind()?;
    let meeting = Stream { lane: 1, number: 0 };
    mpi.send(1 - rank, meeting, 0, &[listener.address().as_bytes()])?;
    let theirs = String::from_utf8(mpi.receive(1 - rank, meeting, 0, Instant::now() + TIMEOUT)?)?;
    let mut addresses = [listener.address().to_owned(), theirs];
    addresses.rotate_left(rank);
    let local = listener.connect(rank, &addresses, TIMEOUT)?;

    for (size, count) in [(4, 1000), (64 << 20, 2)] {
        let body = vec![1; size];
        let mut times = [Vec::new(), Vec::new()];
        let transports: [&dyn Transport; 2] = [&local, &mpi];
        for _ in 0..ROUNDS {
            for (transport, times) in transports.iter().zip(&mut times) {
                times.push(exchange(*transport, &body, count)?.as_secs_f64());
            }
        }
        let [local, mpi] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        if rank == 0 {
            let ratio = mpi / local;
            if size == 4 {
                println!("4 bytes: sockets {:.1} us, MPI {:.1} us, time ratio {ratio:.2}", local * 1e6, mpi * 1e6);
            } else {
                let rate = |seconds: f64| 64.0 / 1024.0 / seconds;
                let (sockets, other) = (rate(local), rate(mpi));
                println!("64 MiB: sockets {sockets:.2} GiB/s, MPI {other:.2} GiB/s, time ratio {ratio:.2}");
            }
        }
    }
    Ok(())
}

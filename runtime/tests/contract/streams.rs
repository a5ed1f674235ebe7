//! Reading and writing: what arrives, what waits, what ends it.

use std::io::ErrorKind;
use std::net::Shutdown;

use crate::net::{pair, read_up_to};
use crate::support::{beside, on_each, settle};

/// More than both socket buffers of a loopback connection hold.
const LARGE_BYTES: usize = 16 << 20;

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index % 251) as u8).collect()
}

#[test]
fn bytes_arrive_as_they_were_sent() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let (result, given_back) = client.write_all(b"hello".to_vec()).await;
        result.unwrap();
        assert_eq!(given_back, b"hello");
        assert_eq!(read_up_to(&server, 5).await.unwrap(), b"hello");
    });
}

#[test]
fn reads_and_writes_run_in_parallel() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let sent = pattern(1 << 20);
        let echo = beside(&reactor, async move {
            loop {
                let (result, bytes) = server.read(Vec::with_capacity(16 << 10)).await;
                if result.unwrap() == 0 {
                    break;
                }
                server.write_all(bytes).await.0.unwrap();
            }
        });
        let (writer, bytes) = (client.clone(), sent.clone());
        let writing = beside(&reactor, async move {
            writer.write_all(bytes).await.0.unwrap();
            writer.shutdown(Shutdown::Write);
        });
        assert_eq!(read_up_to(&client, sent.len() + 1).await.unwrap(), sent);
        writing.await;
        echo.await;
    });
}

#[test]
fn a_read_appends_and_never_grows_the_buffer() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        client.write_all(b"abcdef".to_vec()).await.0.unwrap();
        let mut buffer = Vec::with_capacity(4);
        buffer.extend_from_slice(b"> ");
        let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
        let mut expected = buffer.clone();
        while buffer.len() < capacity {
            let (result, given_back) = server.read(buffer).await;
            assert!(result.unwrap() > 0);
            buffer = given_back;
        }
        expected.extend_from_slice(&b"abcdef"[..capacity - 2]);
        assert_eq!((buffer.as_ptr(), buffer.capacity()), (address, capacity));
        assert_eq!(buffer, expected);
        let (result, buffer) = server.read(buffer).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(buffer, expected);
    });
}

#[test]
fn one_byte_at_a_time_is_still_the_same_bytes() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let sent = pattern(300);
        for byte in &sent {
            client.write_all(vec![*byte]).await.0.unwrap();
        }
        let mut received = Vec::new();
        while received.len() < sent.len() {
            let (result, bytes) = server.read(Vec::with_capacity(1)).await;
            assert_eq!(result.unwrap(), bytes.len());
            received.extend(bytes);
        }
        assert_eq!(received, sent);
    });
}

#[test]
fn an_empty_write_is_done_at_once() {
    on_each(|reactor| async move {
        let (client, _server) = pair(&reactor).await.unwrap();
        client.write_all(Vec::new()).await.0.unwrap();
        assert!(!client.is_busy());
    });
}

#[test]
fn a_half_closed_connection_still_carries_the_answer() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        client.write_all(b"question".to_vec()).await.0.unwrap();
        client.shutdown(Shutdown::Write);
        assert_eq!(read_up_to(&server, 100).await.unwrap(), b"question");
        server.write_all(b"answer".to_vec()).await.0.unwrap();
        drop(server);
        assert_eq!(read_up_to(&client, 100).await.unwrap(), b"answer");
        let (result, _) = client.write_all(b"more".to_vec()).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn shutdown_ends_a_pending_read() {
    on_each(|reactor| async move {
        let (client, _server) = pair(&reactor).await.unwrap();
        let reader = client.clone();
        let reading = beside(&reactor, async move { reader.read(Vec::with_capacity(64)).await.0 });
        settle(&reactor).await;
        assert!(client.is_busy());
        client.shutdown(Shutdown::Both);
        client.shutdown(Shutdown::Both);
        assert_eq!(reading.await.unwrap(), 0);
        assert!(!client.is_busy());
    });
}

#[test]
fn shutdown_ends_a_write_that_waits_for_room() {
    on_each(|reactor| async move {
        let (client, _server) = pair(&reactor).await.unwrap();
        let writer = client.clone();
        let writing =
            beside(&reactor, async move { writer.write_all(pattern(LARGE_BYTES)).await.0 });
        settle(&reactor).await;
        assert!(client.is_busy());
        client.shutdown(Shutdown::Both);
        writing.await.unwrap_err();
        assert!(!client.is_busy());
    });
}

#[test]
fn a_second_operation_of_a_direction_is_answered_busy() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let (reader, writer) = (client.clone(), client.clone());
        let reading = beside(&reactor, async move { reader.read(Vec::with_capacity(64)).await.0 });
        let writing =
            beside(&reactor, async move { writer.write_all(pattern(LARGE_BYTES)).await.0 });
        settle(&reactor).await;
        let (result, _) = client.read(Vec::with_capacity(64)).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ResourceBusy);
        let (result, bytes) = client.write_all(b"x".to_vec()).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ResourceBusy);
        assert_eq!(bytes, b"x");
        // The first ones are not disturbed.
        server.write_all(b"here".to_vec()).await.0.unwrap();
        assert_eq!(reading.await.unwrap(), 4);
        assert_eq!(read_up_to(&server, LARGE_BYTES).await.unwrap(), pattern(LARGE_BYTES));
        writing.await.unwrap();
        assert!(!client.is_busy());
    });
}

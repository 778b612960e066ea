//! Many of Apache's gRPC clients for Rust in one process. Reads one call per line, as JSON, and prints its result:
//! {"client": name, "result": ...} or {"client": name, "error": text}. Ends when its input ends.
//!
//! {"client", "call": "start", "kind": "producer" | "simple", "endpoints": "host:port", ...} starts a client, and "shutdown"
//! ends it (with inBackground, it is answered at once). A producer has the options topics and checker (COMMIT, ROLLBACK or
//! UNKNOWN) and the call send; a simple consumer has the options group, subscriptions, sql and awaitMs, and the calls receive
//! and ack. The library has no push consumer, changes no invisible times, and recalls no messages.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{stream, FutureExt, StreamExt, TryStreamExt};
use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{AckMessageEntry, MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

const AWAIT_MS: u64 = 5_000;
/// The client's time to wait is the deadline of its call, too. The server leaves half of the request timeout of it.
const ANSWERED_WITHIN_MS: u64 = 1_500;
const VIEWS_MAX: usize = 20_000;
const IN_FLIGHT_MAX: usize = 32;
const TIME_IS_OVER: [&str; 2] = ["Timeout expired", "DeadlineExceeded"];

type Outcome = Result<Value, String>;

enum Client {
    Producer(Producer),
    Simple(SimpleConsumer, HashMap<String, FilterExpression>, HashMap<String, MessageView>),
}

#[tokio::main]
async fn main() {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut clients: HashMap<String, UnboundedSender<Value>> = HashMap::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).expect("a call is JSON");
        let name = text(&request, "client");
        let calls = clients.entry(name.clone()).or_insert_with(|| {
            let (sender, receiver) = unbounded_channel();
            tokio::spawn(serve(name, receiver));
            sender
        });
        calls.send(request).expect("a client takes calls until the end");
    }
    std::process::exit(0); // the clients were shut down, or are meant to die
}

/// Answers the calls of one client, one after the other.
async fn serve(name: String, mut calls: UnboundedReceiver<Value>) {
    let mut client: Option<Client> = None;
    while let Some(request) = calls.recv().await {
        // The library panics on status codes that it does not know.
        let outcome = AssertUnwindSafe(call(&mut client, &request)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(format!("panic: {}", text_of(panic.as_ref()))));
        match outcome {
            Ok(result) => println!("{}", json!({"client": name, "result": result})),
            Err(error) => println!("{}", json!({"client": name, "error": error})),
        }
    }
}

async fn call(client: &mut Option<Client>, request: &Value) -> Outcome {
    match (text(request, "call").as_str(), client.as_mut()) {
        ("start", _) => {
            *client = Some(start(request).await?);
            Ok(Value::Null)
        }
        ("shutdown", _) => shut_down(client.take(), request["inBackground"] == json!(true)).await,
        (call, Some(one)) => answer(one, call, request).await,
        (_, None) => Err(format!("There is no client {}.", text(request, "client"))),
    }
}

async fn start(request: &Value) -> Result<Client, String> {
    let mut options = ClientOption::default();
    options.set_access_url(text(request, "endpoints"));
    options.set_enable_tls(false);
    match text(request, "kind").as_str() {
        "producer" => start_producer(request, options).await,
        "simple" => start_simple(request, options).await,
        kind => Err(format!("unsupported: kind {kind}")),
    }
}

async fn start_producer(request: &Value, options: ClientOption) -> Result<Client, String> {
    let mut own = ProducerOption::default();
    own.set_topics(texts(request, "topics"));
    let mut producer = match request["checker"].as_str() {
        None => Producer::new(own, options),
        Some(resolution) => {
            let resolution = resolution.to_string();
            let checker = move |_: String, _: MessageView| match resolution.as_str() {
                "COMMIT" => TransactionResolution::COMMIT,
                "ROLLBACK" => TransactionResolution::ROLLBACK,
                _ => TransactionResolution::UNKNOWN,
            };
            Producer::new_transaction_producer(own, options, Box::new(checker))
        }
    }
    .map_err(describe)?;
    producer.start().await.map_err(describe)?;
    Ok(Client::Producer(producer))
}

async fn start_simple(request: &Value, mut options: ClientOption) -> Result<Client, String> {
    let await_ms = request["awaitMs"].as_u64().unwrap_or(AWAIT_MS);
    options.set_long_polling_timeout(Duration::from_millis(await_ms + ANSWERED_WITHIN_MS));
    let kind = || if request["sql"] == json!(true) { FilterType::Sql } else { FilterType::Tag };
    let subscriptions: HashMap<String, FilterExpression> = request["subscriptions"]
        .as_object()
        .ok_or("a simple consumer needs subscriptions")?
        .iter()
        .map(|(topic, expression)| (topic.clone(), FilterExpression::new(kind(), expression.as_str().unwrap_or("*"))))
        .collect();
    let mut own = SimpleConsumerOption::default();
    own.set_consumer_group(text(request, "group"));
    own.set_topics(subscriptions.keys().cloned().collect());
    let mut consumer = SimpleConsumer::new(own, options).map_err(describe)?;
    consumer.start().await.map_err(describe)?;
    Ok(Client::Simple(consumer, subscriptions, HashMap::new()))
}

async fn shut_down(client: Option<Client>, in_background: bool) -> Outcome {
    let end = async move {
        match client {
            Some(Client::Producer(producer)) => producer.shutdown().await.map_err(describe),
            Some(Client::Simple(consumer, ..)) => consumer.shutdown().await.map_err(describe),
            None => Ok(()),
        }
    };
    if in_background {
        tokio::spawn(end);
        return Ok(Value::Null);
    }
    end.await.map(|()| Value::Null)
}

async fn answer(client: &mut Client, call: &str, request: &Value) -> Outcome {
    match (client, call) {
        (Client::Producer(producer), "send") => match request["count"].as_u64() {
            None => send(producer, request, &text(request, "body")).await,
            Some(count) => send_many(producer, request, count).await,
        },
        (Client::Simple(consumer, subscriptions, views), "receive") => {
            receive(consumer, subscriptions, views, request).await
        }
        (Client::Simple(consumer, _, views), "ack") => {
            let handle = text(request, "handle");
            let view = views.get(&handle).ok_or(format!("No message was received with the handle {handle}."))?;
            consumer.ack(view).await.map_err(describe)?;
            Ok(Value::Null)
        }
        (_, call) => Err(format!("unsupported: {call}")),
    }
}

/// With `transaction` (COMMIT, ROLLBACK, or UNKNOWN: do neither) a message is sent as a half message.
async fn send(producer: &Producer, request: &Value, body: &str) -> Outcome {
    let mut message = MessageBuilder::builder().set_topic(text(request, "topic")).set_body(body.as_bytes().to_vec());
    if let Some(tag) = request["tag"].as_str() {
        message = message.set_tag(tag);
    }
    if request["keys"].is_array() {
        message = message.set_keys(texts(request, "keys"));
    }
    if let Some(properties) = request["properties"].as_object() {
        let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let properties: HashMap<String, String> = properties.iter().map(|(name, of)| (name.clone(), value(of))).collect();
        message = message.set_properties(properties);
    }
    if let Some(group) = request["messageGroup"].as_str() {
        message = message.set_message_group(group);
    }
    if let Some(at_ms) = request["deliveryMs"].as_u64() {
        message = message.set_delivery_timestamp(at_ms.div_ceil(1_000) as i64); // it takes whole seconds
    }
    let Some(end) = request["transaction"].as_str() else {
        let sent = producer.send(message.build().map_err(describe)?).await.map_err(describe)?;
        return Ok(json!({"messageId": sent.message_id()}));
    };
    let half = message.enable_transaction().build().map_err(describe)?;
    let transaction = producer.send_transaction_message(half).await.map_err(describe)?;
    let id = transaction.message_id().to_string();
    match end {
        "COMMIT" => transaction.commit().await.map_err(describe)?,
        "ROLLBACK" => transaction.rollback().await.map_err(describe)?,
        _ => (),
    }
    Ok(json!({"messageId": id}))
}

/// Sends messages with the bodies body-0, body-1, ...: some at a time, or one by one if their order matters.
async fn send_many(producer: &Producer, request: &Value, count: u64) -> Outcome {
    let in_order = request["messageGroup"].is_string() || request["transaction"].is_string();
    let at_once = if in_order { 1 } else { IN_FLIGHT_MAX };
    let sends = (0..count).map(|number| async move { send(producer, request, &format!("body-{number}")).await });
    Ok(Value::Array(stream::iter(sends).buffered(at_once).try_collect().await?))
}

/// Receives from each of its topics until one of them has messages. The library fails when the time to wait is over before
/// the server has said that there is nothing, since both are the same time.
async fn receive(
    consumer: &SimpleConsumer,
    subscriptions: &HashMap<String, FilterExpression>,
    views: &mut HashMap<String, MessageView>,
    request: &Value,
) -> Outcome {
    let count = request["max"].as_i64().unwrap_or(32) as i32;
    let invisible = Duration::from_millis(request["invisibleMs"].as_u64().unwrap_or(10_000));
    for (topic, expression) in subscriptions {
        let received = match consumer.receive_with(topic, expression, count, invisible).await.map_err(describe) {
            Err(error) if TIME_IS_OVER.iter().any(|told| error.contains(told)) => continue,
            outcome => outcome?,
        };
        if received.is_empty() {
            continue;
        }
        let shown = received.iter().map(show).collect();
        if views.len() > VIEWS_MAX {
            views.clear();
        }
        views.extend(received.into_iter().map(|view| (view.receipt_handle(), view)));
        return Ok(Value::Array(shown));
    }
    Ok(json!([]))
}

/// Returns a message as tests see it. The library shows no offsets.
fn show(view: &MessageView) -> Value {
    json!({
        "messageId": view.message_id(),
        "topic": view.topic(),
        "body": String::from_utf8_lossy(view.body()),
        "tag": view.tag(),
        "keys": view.keys(),
        "messageGroup": view.message_group(),
        "properties": view.properties(),
        "attempt": view.delivery_attempt(),
        "handle": view.receipt_handle(),
    })
}

fn describe(error: rocketmq::error::ClientError) -> String {
    let text = format!("{error:?}");
    text.split("Stack backtrace").next().unwrap_or_default().trim().to_string()
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn text(request: &Value, name: &str) -> String {
    request[name].as_str().unwrap_or_default().to_string()
}

fn texts(request: &Value, name: &str) -> Vec<String> {
    let list = request[name].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(|one| one.as_str().map(str::to_string)).collect()
}

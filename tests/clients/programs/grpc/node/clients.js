/**
 * Many of Apache's gRPC clients for Node in one process. Reads one call per line, as JSON, and prints its result:
 * {"client": name, "result": ...} or {"client": name, "error": text}. What a push consumer gets is printed at once:
 * {"client": name, "consumed": message}. Ends when its input ends.
 *
 * {"client", "call": "start", "kind": "producer" | "simple" | "push", "endpoints": "host:port", ...} starts a client (with
 * "tls", one that speaks TLS), and "shutdown" ends it (with inBackground, it is answered at once). The functions below have
 * the other calls and options.
 */
'use strict';

const readline = require('node:readline');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const AWAIT_MS = 5000;
const VIEWS_MAX = 20000;
const IN_FLIGHT_MAX = 32;
const clients = new Map();
const ending = new Map(); // by client, the end of its last call

// The library logs to a file of its own. Here all of it goes to the log of the process.
const logger = { debug() {}, info() {}, warn: console.error, error: console.error };

function print(client, kind, what) {
  process.stdout.write(`${JSON.stringify({ client, [kind]: what === undefined ? null : what })}\n`);
}

class Unsupported extends Error {}

/** Options: topics, checker (COMMIT, ROLLBACK or UNKNOWN). Calls: send, recall. */
async function startProducer(request) {
  const checker = request.checker && { check: async () => TransactionResolution[resolutionName(request.checker)] };
  const producer = new Producer({ ...common(request), topics: request.topics, topic: request.topics, checker });
  await producer.startup();
  return {
    client: producer,
    send: call => (call.count === undefined ? sendOne(producer, call, call.body) : sendMany(producer, call)),
    recall: async call => ({ messageId: (await producer.recallMessage(call.topic, call.handle)).messageId }),
  };
}

function resolutionName(resolution) {
  return resolution === 'UNKNOWN' ? 'TRANSACTION_RESOLUTION_UNSPECIFIED' : resolution;
}

/** With `transaction` (COMMIT, ROLLBACK, or UNKNOWN: do neither) a message is sent as a half message. */
async function sendOne(producer, call, body) {
  const message = {
    topic: call.topic,
    body: Buffer.from(body),
    tag: call.tag,
    keys: call.keys || [],
    messageGroup: call.messageGroup,
    properties: new Map(Object.entries(call.properties || {})),
    deliveryTimestamp: call.deliveryMs === undefined ? undefined : new Date(call.deliveryMs),
    priority: call.priority,
  };
  if (call.transaction === undefined) {
    return written(await producer.send(message));
  }
  const transaction = producer.beginTransaction();
  const receipt = await producer.send(message, transaction);
  if (call.transaction === 'COMMIT') {
    await transaction.commit();
  } else if (call.transaction === 'ROLLBACK') {
    await transaction.rollback();
  }
  return written(receipt);
}

/** Sends messages with the bodies body-0, body-1, ...: some at a time, or one by one if their order matters. */
async function sendMany(producer, call) {
  const atOnce = call.messageGroup !== undefined || call.transaction !== undefined ? 1 : IN_FLIGHT_MAX;
  const receipts = [];
  let next = 0;
  const sendNext = async () => {
    while (next < call.count) {
      const number = next++;
      receipts[number] = await sendOne(producer, call, `body-${number}`);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, sendNext));
  return receipts;
}

function written(receipt) {
  return { messageId: receipt.messageId, ...(receipt.recallHandle ? { recallHandle: receipt.recallHandle } : {}) };
}

/** Options: group, subscriptions, sql, awaitMs. Calls: receive, ack, change (which keep what they have received). */
async function startSimple(request) {
  const consumer = new SimpleConsumer({
    ...common(request),
    consumerGroup: request.group,
    subscriptions: subscriptions(request),
    awaitDuration: request.awaitMs === undefined ? AWAIT_MS : request.awaitMs,
  });
  const views = new Map();
  await consumer.startup();
  const find = handle => {
    if (!views.has(handle)) {
      throw new Error(`No message was received with the handle ${handle}.`);
    }
    return Object.assign(views.get(handle), { receiptHandle: handle });
  };
  return {
    client: consumer,
    receive: async call => {
      const received = await consumer.receive(call.max, call.invisibleMs);
      received.forEach(view => views.set(view.receiptHandle, view));
      [...views.keys()].slice(0, Math.max(0, views.size - VIEWS_MAX)).forEach(old => views.delete(old));
      return received.map(shown);
    },
    ack: async call => consumer.ack(find(call.handle)),
    change: async call => {
      const view = find(call.handle);
      await consumer.changeInvisibleDuration(view, call.invisibleMs);
      views.set(view.receiptHandle, view);
      return { handle: view.receiptHandle };
    },
  };
}

/**
 * Options: group, subscriptions, sql, fail (-1: each delivery fails; n: the first n of each message), hold (ends no message
 * before the call letGo), cacheMessages.
 */
async function startPush(request, name) {
  const failed = new Map();
  let letGo = () => null;
  const held = request.hold ? new Promise(resolve => { letGo = resolve; }) : Promise.resolve();
  const consume = async view => {
    print(name, 'consumed', shown(view));
    await held;
    const times = (failed.get(view.messageId) || 0) + 1;
    failed.set(view.messageId, times);
    const fails = request.fail === -1 || times <= (request.fail || 0);
    if (!fails) {
      failed.delete(view.messageId);
    }
    return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  };
  const consumer = new PushConsumer({
    ...common(request),
    consumerGroup: request.group,
    subscriptions: subscriptions(request),
    messageListener: { consume },
    ...(request.cacheMessages === undefined ? {} : { maxCacheMessageCount: request.cacheMessages }),
  });
  await consumer.startup();
  return {
    client: consumer,
    letGo() {
      letGo();
      return null;
    },
  };
}

function common(request) {
  return { endpoints: request.endpoints, sslEnabled: request.tls === true, namespace: '', logger };
}

function subscriptions(request) {
  const type = request.sql ? FilterType.SQL : FilterType.TAG;
  return new Map(Object.entries(request.subscriptions).map(([topic, text]) => [topic, new FilterExpression(text, type)]));
}

/** Returns a message as tests see it. */
function shown(view) {
  return {
    messageId: view.messageId,
    topic: view.topic,
    body: view.body.toString(),
    tag: view.tag || null,
    keys: view.keys,
    messageGroup: view.messageGroup || null,
    properties: Object.fromEntries(view.properties),
    attempt: view.deliveryAttempt,
    handle: view.receiptHandle,
    queueOffset: view.offset,
    ...(view.corrupted ? { corrupted: true } : {}),
  };
}

const STARTS = { producer: startProducer, simple: startSimple, push: startPush };

async function answer(request) {
  const { client: name, call } = request;
  if (call === 'start') {
    const start = STARTS[request.kind];
    if (start === undefined) {
      throw new Unsupported(`kind ${request.kind}`);
    }
    clients.set(name, await start(request, name));
    return null;
  }
  const one = clients.get(name);
  if (one === undefined) {
    throw new Error(`There is no client ${name}.`);
  }
  if (call === 'shutdown') {
    clients.delete(name);
    const end = one.client.shutdown();
    if (request.inBackground) {
      end.catch(console.error);
      return null;
    }
    await end;
    return null;
  }
  if (typeof one[call] !== 'function') {
    throw new Unsupported(call);
  }
  return one[call](request);
}

/** Answers the calls of a client one after the other, and those of different clients at the same time. */
function take(line) {
  const request = JSON.parse(line);
  const before = ending.get(request.client) || Promise.resolve();
  const now = before.then(async () => {
    try {
      print(request.client, 'result', await answer(request));
    } catch (error) {
      const text = error instanceof Unsupported ? `unsupported: ${error.message}` : `${error.name}: ${error.message}`;
      print(request.client, 'error', text);
    }
  });
  ending.set(request.client, now);
}

// The library does not catch the errors of its timers and streams.
process.on('unhandledRejection', error => console.error(error));
process.on('uncaughtException', error => console.error(error));
readline.createInterface({ input: process.stdin }).on('line', take).on('close', () => process.exit(0));

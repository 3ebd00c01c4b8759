// node-redlock, driven by lines: a command on standard input, an answer on standard output. Its arguments are the ports.
const fs = require('node:fs')
const readline = require('node:readline')
const Redis = require('ioredis')
const { default: Redlock } = require('redlock')

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// A master that does not answer is no reason to wait for it.
const impatient = { commandTimeout: 500, maxRetriesPerRequest: 0, retryStrategy: () => 500 }
const ports = process.argv.slice(1)
const clients = ports.map((port) => new Redis(Number(port), '127.0.0.1', ports.length > 1 ? impatient : {}))
for (const client of clients) client.on('error', () => {})
// On one server it retries by itself, as often as it takes. On several that has a flaw: it keeps the votes of a failed try,
// and takes them for another's with the next one. So there a try is one try, after which it gives them back.
const redlock = new Redlock(clients, { retryCount: -1, retryDelay: 20, retryJitter: 10, automaticExtensionThreshold: 50 })
const once = new Redlock(clients, { retryCount: 0 })
let lock

async function take(name, ttl, wait) {
  if (ports.length === 1) return (wait > 0 ? redlock : once).acquire([name], ttl)
  for (const end = Date.now() + wait; ; await sleep(10 + Math.random() * 20)) {
    try {
      return await once.acquire([name], ttl)
    } catch (error) {
      if (Date.now() >= end) throw error
    }
  }
}

const commands = {
  async acquire(name, ttl, wait) {
    lock = await take(name, Number(ttl), Number(wait))
    return 'held'
  },
  async extend(ttl) {
    lock = await lock.extend(Number(ttl))
    return 'extended'
  },
  async release() {
    await lock.release()
    return 'released'
  },
  // So many times: takes the lock, and adds one to the number in a file, slowly.
  async count(name, ttl, file, times, pause) {
    for (let i = 0; i < Number(times); i++) {
      lock = await take(name, Number(ttl), 60000)
      const number = Number(fs.readFileSync(file, 'utf8'))
      await sleep(Number(pause))
      fs.writeFileSync(file, String(number + 1))
      await lock.release()
    }
    return 'counted'
  },
}

async function main() {
  console.log('ready')
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, ...rest] = line.split(' ')
    console.log(await commands[word](...rest).catch((error) => (word === 'acquire' ? 'busy' : `lost ${error.name}`)))
  }
  for (const client of clients) client.disconnect()
}

main()

// node-redlock on one server, driven by lines: a command on standard input, an answer on standard output.
const readline = require('node:readline')
const Redis = require('ioredis')
const { default: Redlock } = require('redlock')

const client = new Redis(Number(process.argv[1]), '127.0.0.1')
// It retries as often as it takes; the one who drives it has the patience.
const redlock = new Redlock([client], { retryCount: -1, retryDelay: 20, retryJitter: 10, automaticExtensionThreshold: 50 })
redlock.on('error', () => {})
const once = new Redlock([client], { retryCount: 0 })
once.on('error', () => {})
let lock

const commands = {
  async acquire(name, ttl, wait) {
    lock = await (Number(wait) > 0 ? redlock : once).acquire([name], Number(ttl))
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
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, ...rest] = line.split(' ')
    console.log(await commands[word](...rest).catch((error) => (word === 'acquire' ? 'busy' : `lost ${error.name}`)))
  }
  client.disconnect()
}

main()
